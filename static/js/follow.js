// follow.js — stay at the end of the transcript unless the reader has gone elsewhere.
// Going away is read from wheel, touch, keys, selecting and opening, never from scroll events,
// so that scrolling of our own cannot be mistaken for the reader's.
import { $ } from "./core.js";

const NEAR_PX = 48;
let log = null;
let isFollowing = true;
let fresh = 0;
let restingTop = 0; // where the last scroll ended

export const following = () => isFollowing;
const distance = () => log.scrollHeight - log.scrollTop - log.clientHeight;

export function toEnd() {
  if (!log) return;
  log.scrollTop = log.scrollHeight;
  restingTop = log.scrollTop;
}

export function setFollowing(now) {
  isFollowing = now;
  if (now) fresh = 0;
  draw();
  document.dispatchEvent(new CustomEvent("follow.changed", { detail: { following: now } }));
}

// Something new stands below.
export function count(blocks) {
  if (isFollowing || !blocks) return;
  fresh += blocks;
  draw();
}

function draw() {
  const button = $(".chat__jump");
  if (!button) return;
  button.hidden = isFollowing || (!log?.querySelector("[data-partial]") && distance() < NEAR_PX);
  $("[data-fresh]", button).textContent = fresh ? String(Math.min(fresh, 99)) : "";
  button.setAttribute("aria-label", fresh ? `Latest, ${fresh} new` : "Latest");
}

const away = () => { if (isFollowing && log.scrollHeight > log.clientHeight) setFollowing(false); };
const back = () => { if (distance() < NEAR_PX && !log.querySelector("[data-partial]")) setFollowing(true); else draw(); };
const backSoon = () => setTimeout(() => log && back(), 80);

const observer = new ResizeObserver(() => { if (isFollowing) toEnd(); });

export function attach(element, stream, { follow }) {
  observer.disconnect();
  log = element;
  fresh = 0;
  element.addEventListener("wheel", (event) => { if (event.deltaY < 0) away(); else backSoon(); }, { passive: true });
  let touchedAt = 0;
  element.addEventListener("touchstart", (event) => { touchedAt = event.touches[0].clientY; }, { passive: true });
  element.addEventListener("touchmove", (event) => {
    const isUp = event.touches[0].clientY > touchedAt + 4;
    if (isUp) away(); else backSoon();
  }, { passive: true });
  element.addEventListener("keydown", (event) => {
    if (/^(PageUp|ArrowUp|Home)$/.test(event.key) && event.target === element) away();
    if (/^(PageDown|ArrowDown|End)$/.test(event.key)) backSoon();
  });
  element.addEventListener("scrollend", () => {
    const hasGoneDown = element.scrollTop > restingTop;
    restingTop = element.scrollTop;
    if (!isFollowing && hasGoneDown) back();
  });
  // Tabbing to something further up is going there.
  element.addEventListener("focusin", (event) => {
    if (event.target !== element) requestAnimationFrame(() => { if (log === element && distance() > NEAR_PX) away(); });
  });
  element.addEventListener("pointerdown", (event) => { if (event.target === element) backSoon(); }); // the scroll bar
  element.addEventListener("toggle", (event) => {
    if (!event.target.open || !isFollowing) return;
    const opened = event.target.closest(".tool, .work, details");
    const last = [...stream.querySelectorAll(".tool, .work")].at(-1);
    if (opened && last && !opened.contains(last)) away(); // a run arrives open, with its call inside
  }, true);
  observer.observe(stream);
  observer.observe(element); // the composer grew, or a keyboard came up
  setFollowing(follow);
  if (follow) { toEnd(); requestAnimationFrame(toEnd); }
}

document.addEventListener("selectionchange", () => {
  const selection = document.getSelection();
  if (log && selection && !selection.isCollapsed && log.contains(selection.anchorNode)) away();
});
globalThis.visualViewport?.addEventListener("resize", () => { if (isFollowing) toEnd(); });
addEventListener("resize", () => { if (isFollowing) toEnd(); });
