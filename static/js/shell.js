// shell.js — the frame: drawer, sheets, details, dialogs. Below 820 px the navigation is a drawer.
import { $, $$ } from "./core.js";

const A_YEAR_S = 31536000;
const wide = matchMedia("(min-width: 1261px)");
const narrow = matchMedia("(max-width: 820px)");
let opener = null;

// — drawer: what lies behind it cannot be reached —
export function drawer(isOpen) {
  const nav = $("#nav");
  nav.toggleAttribute("data-open", isOpen);
  $('[data-act="nav"]')?.setAttribute("aria-expanded", String(isOpen));
  $("#page").inert = isOpen;
  $(".app__scrim")?.remove();
  if (!isOpen) { opener?.isConnected ? opener.focus() : $('[data-act="nav"]')?.focus(); return; }
  opener = document.activeElement;
  scrim(() => drawer(false));
  $("a, button", nav).focus();
}
function scrim(close) {
  const cover = document.createElement("div");
  cover.className = "app__scrim";
  cover.addEventListener("click", close);
  $(".app").append(cover);
}
function trap(event) {
  const nav = $("#nav");
  const stops = $$("a[href], button:not([disabled])", nav).filter((one) => one.offsetParent);
  const edge = event.shiftKey ? stops[0] : stops.at(-1);
  if (document.activeElement !== edge && nav.contains(document.activeElement)) return;
  event.preventDefault();
  (event.shiftKey ? stops.at(-1) : stops[0]).focus();
}
narrow.addEventListener("change", () => { if (!narrow.matches && $("#nav").hasAttribute("data-open")) drawer(false); });

// — session list and details, where there is no room for them —
function sheet(element, button, isOpen) {
  if (!element) return;
  element.toggleAttribute("data-open", isOpen);
  button?.setAttribute("aria-expanded", String(isOpen));
  $(".app__scrim")?.remove();
  if (!isOpen) { button?.focus(); return; }
  scrim(() => sheet(element, button, false));
  $("input, a, button", element)?.focus();
}
function closeSheets() {
  const open = $(".split__list[data-open], .split__aside[data-open]");
  if (!open) return false;
  sheet(open, $(`[aria-controls="${open.id}"]`), false);
  return true;
}

export function toggleDetails() {
  const aside = $("#chat-aside");
  const button = $('[data-act="aside"]');
  if (!aside) return;
  if (!wide.matches) { sheet(aside, button, !aside.hasAttribute("data-open")); return; }
  const split = aside.closest(".split");
  const isOff = split.dataset.aside !== "off";
  if (isOff) split.dataset.aside = "off"; else delete split.dataset.aside;
  document.cookie = `aside=${isOff ? "off" : "on"}; path=/; max-age=${A_YEAR_S}; samesite=lax`;
  button?.setAttribute("aria-expanded", String(!isOff));
  if (!isOff) globalThis.htmx.trigger("#aside", "aside.shown");
}

// — dialogs —
export function openAttention() {
  const dialog = $("#attention");
  if (dialog.open) return;
  globalThis.htmx.trigger("#attention-body", "attention.open");
  dialog.showModal();
}
export function openKeys() { if (!$("#keys").open) $("#keys").showModal(); }
document.addEventListener("click", (event) => {
  // Outside of a dialog's box is its backdrop.
  if (event.target.matches?.("dialog") && event.target === event.target.closest("dialog")) event.target.close();
  const button = event.target.closest("[data-act]");
  if (!button) return;
  const acts = {
    nav: () => drawer(!$("#nav").hasAttribute("data-open")),
    sheet: () => sheet($("#chat-list"), button, !$("#chat-list").hasAttribute("data-open")),
    aside: toggleDetails,
    attention: openAttention,
  };
  acts[button.dataset.act]?.();
});
document.addEventListener("keydown", (event) => {
  const nav = $("#nav");
  if (nav.hasAttribute("data-open")) {
    if (event.key === "Escape") { event.preventDefault(); drawer(false); }
    if (event.key === "Tab") trap(event);
  } else if (event.key === "Escape" && !event.defaultPrevented && !$("dialog[open]") && closeSheets()) {
    event.preventDefault();
  }
});
document.addEventListener("htmx:load", (event) => {
  if (event.target.id === "page") {
    $(".app__scrim")?.remove();
    if ($("#nav").hasAttribute("data-open")) { $("#nav").removeAttribute("data-open"); $("#page").inert = false; }
  }
  const button = $('[data-act="aside"]');
  button?.setAttribute("aria-expanded", String(wide.matches && $(".split")?.dataset.aside !== "off"));
});
if (!/Mac|iP(hone|ad)/.test(navigator.platform)) {
  for (const key of $$("[data-mod-key]")) key.textContent = "Ctrl K";
  for (const key of $$("kbd[data-mod]")) key.textContent = "Ctrl";
}
