// hitl.js — cards that wait for the operator: drafts, focus, keys, and calm before an approval.
// The server owns steps, checks and texts; this only saves typing, moves the focus and refuses
// clicks that cannot have been meant. All listeners are on the document.

import { $, $$, cookie, say } from "./core.js";

const OPEN = '.hitl[data-state="open"]';
const SAVE_MS = 400;
const CALM_MS = 600;
const finePointer = matchMedia("(pointer: fine)");

// — drafts: saved 400 ms after the last key, and at once when the page goes away —
const drafts = new Map(); // card id → { timer, running, typed, saved }: how often typed and saved
const sending = new Set(); // cards of which a post is on its way
const mine = new Set(); // cards that this tab has ended: what the link says of them is no news

function draftOf(card) {
  if (!drafts.has(card.id)) drafts.set(card.id, { typed: 0, saved: 0 });
  return drafts.get(card.id);
}
function fields(form) {
  const data = new FormData(form);
  for (const input of $$("input", form)) if (input.validity.badInput) data.append("_bad", input.name);
  return new URLSearchParams(data);
}
function note(card, text) {
  const line = $("[data-hitl-saved]", card);
  if (line) line.textContent = text;
}
function saveSoon(form) {
  const card = form.closest(".hitl");
  if (sending.has(card.id)) return; // what is being sent includes it
  const draft = draftOf(card);
  draft.typed += 1;
  clearTimeout(draft.timer);
  draft.timer = setTimeout(() => save(form), SAVE_MS);
  note(card, "Saving…");
}
function save(form) {
  const card = form.closest(".hitl");
  const draft = draftOf(card);
  const { typed } = draft;
  const body = fields(form);
  clearTimeout(draft.timer);
  draft.timer = undefined;
  // One after the other: an older text must not arrive after a newer one.
  draft.running = (draft.running ?? Promise.resolve()).then(async () => {
    if (await post(form, card, body)) draft.saved = typed;
  });
  return draft.running;
}
async function post(form, card, body) {
  try {
    const response = await fetch(form.dataset.draftUrl, {
      method: "POST", body, keepalive: true, credentials: "same-origin",
      headers: { "X-CSRFToken": cookie("protoagent_csrf"), "HX-Request": "true" },
    });
    if (response.status === 409) reload(card);
    else if (!response.ok) note(card, response.status === 401 ? "Not saved: signed out" : "Not saved");
    if (!response.ok) return false;
    const { masked = [] } = await response.json();
    for (const hint of $$("[data-mask-note]", card)) hint.hidden = !masked.includes(hint.dataset.maskNote);
    note(card, "Saved");
    return true;
  } catch {
    note(card, "Not saved: offline");
    return false;
  }
}
async function flush(card) {
  const draft = drafts.get(card.id);
  if (!draft) return;
  clearTimeout(draft.timer);
  draft.timer = undefined;
  if (draft.running) await Promise.race([draft.running, new Promise((done) => setTimeout(done, 2000))]);
}
function reload(card) {
  if (card.isConnected) window.htmx.ajax("GET", card.dataset.url, { target: card, swap: "outerHTML settle:0ms" });
}
async function redraw(form) {
  const card = form.closest(".hitl");
  await save(form);
  const now = document.getElementById(card.id);
  if (now) window.htmx.ajax("GET", form.dataset.stepUrl, { target: now, swap: "morph:outerHTML settle:0ms" });
}

document.addEventListener("input", (event) => {
  const form = event.target.closest?.(`${OPEN} form[data-draft-url]`);
  if (form) saveSoon(form);
});
document.addEventListener("change", (event) => {
  const form = event.target.closest?.(`${OPEN} form[data-draft-url]`);
  if (!form) return;
  if (event.target.closest("[data-watched]")) redraw(form);
  else saveSoon(form);
});
// A page that comes back faster than the last save: the text waits in this tab until it is stored.
const LEFT = "hitl-left:";
addEventListener("pagehide", () => {
  for (const form of $$(`${OPEN} form[data-draft-url]`)) {
    const draft = draftOf(form.closest(".hitl"));
    if (draft.typed === draft.saved) continue;
    try { sessionStorage.setItem(LEFT + form.dataset.draftUrl, fields(form).toString()); } catch { /* private mode */ }
    save(form);
  }
});
async function bringBack() {
  for (const form of $$(`${OPEN} form[data-draft-url]`)) {
    const key = LEFT + form.dataset.draftUrl;
    let left = null;
    try { left = sessionStorage.getItem(key); sessionStorage.removeItem(key); } catch { /* private mode */ }
    if (!left) continue;
    const card = form.closest(".hitl");
    await post(form, card, new URLSearchParams(left));
    reload(card);
  }
}
document.addEventListener("visibilitychange", () => {
  if (document.hidden) return;
  // Another tab or device may be a step further; what is being typed here stays.
  for (const card of $$(`${OPEN}:not(.hitl--approval)`)) {
    const draft = drafts.get(card.id);
    if (!card.contains(document.activeElement) && !draft?.timer) window.htmx.ajax("GET", card.dataset.url, { target: card, swap: "morph:outerHTML settle:0ms" });
  }
});

// — sending —
document.addEventListener("htmx:confirm", (event) => {
  const card = event.target.closest?.(OPEN);
  if (!card || event.detail.verb !== "post" || !drafts.has(card.id)) return;
  event.preventDefault();
  flush(card).then(() => event.detail.issueRequest(true));
});
document.addEventListener("htmx:configRequest", (event) => {
  const form = event.detail.elt.closest?.(`${OPEN} form`);
  if (!form || event.detail.verb !== "post") return;
  event.detail.headers["X-CSRFToken"] = cookie("protoagent_csrf");
  for (const input of $$("input", form)) if (input.validity.badInput) event.detail.parameters.append("_bad", input.name);
});
document.addEventListener("htmx:beforeRequest", (event) => {
  const card = event.detail.elt.closest?.(OPEN);
  if (card && event.detail.requestConfig.verb === "post") sending.add(card.id);
});
document.addEventListener("htmx:beforeSwap", (event) => {
  const { target, xhr } = event.detail;
  if (target?.matches?.(".hitl") && [409, 422].includes(xhr.status)) {
    event.detail.shouldSwap = true;
    event.detail.isError = false;
  }
});
document.addEventListener("htmx:afterRequest", (event) => {
  const id = event.detail.requestConfig?.target?.id;
  if (event.detail.requestConfig?.verb === "post" && sending.delete(id)) later();
  const card = event.detail.elt.closest?.(OPEN);
  if (card && !event.detail.successful && ![409, 422].includes(event.detail.xhr?.status)) note(card, "Not sent. Your input is kept; try again.");
});
document.addEventListener("submit", (event) => {
  const field = event.target.closest(".hitl") && event.target.elements.csrfmiddlewaretoken;
  if (field && !field.value) field.value = cookie("protoagent_csrf"); // cards that came over the link have none
}, true);

// — focus after our own action: the first wrong field, else the heading —
function settle(card) {
  const where = card.dataset.focus;
  card.removeAttribute("data-focus");
  if (card.dataset.state !== "open") mine.add(card.id);
  if (card.dataset.announce) say(card.dataset.announce);
  const asked = $("[data-hitl-keep]", card);
  const invalid = asked ?? $('[aria-invalid="true"]', card);
  const composer = document.getElementById("composer-text");
  if (invalid) (invalid.matches("fieldset") ? $("input", invalid) : invalid).focus();
  else if (where === "composer" && composer && finePointer.matches && !card.closest("dialog")) composer.focus();
  else $("[data-hitl-heading]", card)?.focus({ preventScroll: Boolean(card.closest("dialog")) });
}
// Cards are swapped with settle:0ms. A card that has the focus but is not wired yet would take a
// fast Enter as a plain form or link; and a live frame that redraws it must not come in between.
document.addEventListener("htmx:afterSwap", (event) => {
  const card = document.getElementById(event.detail.target?.id);
  if (card?.matches(".hitl[data-focus]")) settle(card);
}, true);
document.addEventListener("htmx:load", (event) => {
  const root = event.target;
  const cards = root.matches?.(".hitl[data-focus]") ? [root] : $$(".hitl[data-focus]", root);
  cards.forEach(settle);
});

// — keys —
document.addEventListener("keydown", (event) => {
  const card = event.target.closest?.(OPEN);
  if (!card || event.isComposing) return;
  if (card.classList.contains("hitl--approval")) return approvalKeys(event, card);
  if (event.key === "Escape" && !event.defaultPrevented) {
    const button = $("[data-hitl-dismiss]", card);
    if (button) { event.preventDefault(); button.click(); }
  }
  const plainEnter = event.key === "Enter" && !event.shiftKey && !event.ctrlKey && !event.altKey && !event.metaKey;
  if (plainEnter && event.target.matches("[data-enter-sends]") && finePointer.matches) {
    event.preventDefault();
    event.target.form.requestSubmit($("[data-hitl-main]", card));
  }
  return undefined;
});
function approvalKeys(event, card) {
  const chord = event.ctrlKey && event.altKey && { Enter: "approve", Backspace: "deny" }[event.key];
  if (chord) {
    event.preventDefault();
    $(`[data-chord="${chord}"]`, card)?.click();
  } else if (event.key === "Enter" && event.target.matches("button, input")) {
    event.preventDefault(); // an approval is never pressed by a stray Enter
  }
}

// — approvals: inert for 600 ms after they appear or move —
const seen = new Map(); // card id → { top, left, since: it moved, born: it appeared }
function look() {
  const now = performance.now();
  const cards = $$(`.hitl--approval${OPEN}`);
  const ids = new Set(cards.map((card) => card.id));
  for (const id of seen.keys()) if (!ids.has(id)) seen.delete(id);
  for (const card of cards) {
    const { top, left } = card.getBoundingClientRect();
    const last = seen.get(card.id);
    const hasMoved = !last || Math.abs(last.top - top) > 4 || Math.abs(last.left - left) > 4;
    if (hasMoved) seen.set(card.id, { top, left, since: now, born: last?.born ?? now });
    const isSettling = now - seen.get(card.id).since < CALM_MS;
    const buttons = $$("button[name=decision]", card);
    if (card.hasAttribute("data-settling") === isSettling && buttons.every((button) => button.hasAttribute("aria-disabled") === isSettling)) continue;
    card.toggleAttribute("data-settling", isSettling);
    for (const button of buttons) {
      if (isSettling) button.setAttribute("aria-disabled", "true");
      else button.removeAttribute("aria-disabled");
    }
  }
}
function refuseEarly(event) {
  const card = event.target.closest?.(`.hitl--approval${OPEN}`);
  if (!card || (event.type === "click" && !event.target.closest("button[type=submit]"))) return;
  look();
  const { since, born } = seen.get(card.id);
  // The keyboard presses what has the focus, wherever it has moved to.
  const quietSince = event.type === "click" && event.detail > 0 ? since : born;
  if (performance.now() - quietSince >= CALM_MS) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  say("One moment: read it first, then decide.");
}
document.addEventListener("click", refuseEarly, true);
document.addEventListener("submit", refuseEarly, true);
setInterval(look, 100);

// — answered in another tab —
document.addEventListener("hitl.answering", (event) => mine.add(`hitl-${event.detail}`)); // by the composer
const states = new Map();
function notice() {
  for (const card of $$(".hitl[id][data-state]")) {
    if (sending.has(card.id)) continue; // our own answer may come back over the link first
    const before = states.get(card.id);
    const state = card.dataset.state;
    states.set(card.id, state);
    if (before !== "open" || state === "open") continue;
    drafts.delete(card.id);
    if (mine.delete(card.id) || card.hasAttribute("data-focus")) continue;
    if (state !== "answered" && state !== "dismissed") continue; // stopped, or it answered itself
    const line = $("[data-hitl-elsewhere]", card);
    if (line) { line.hidden = false; say(line.textContent); }
  }
}

// — a bar above the composer while a card is out of sight —
function bar() {
  const dock = document.getElementById("dock");
  const log = document.getElementById("log");
  if (!dock || !log) return;
  const view = log.getBoundingClientRect();
  const cards = $$(OPEN, log);
  const visible = cards.some((card) => {
    const box = card.getBoundingClientRect();
    return box.bottom > view.top + 40 && box.top < view.bottom - 40;
  });
  let button = $("[data-hitl-bar]", dock);
  if (!cards.length || visible) return void button?.remove();
  if (!button) {
    button = document.createElement("button");
    button.type = "button";
    button.className = "hitl-bar";
    button.dataset.hitlBar = "";
    dock.prepend(button);
  }
  const text = cards.length > 1 ? `${cards.length} questions wait for you` : `Waiting on you: ${$("[data-hitl-heading]", cards[0])?.textContent.trim() ?? ""}`;
  if (button.textContent !== text) button.textContent = text;
  button.dataset.hitlBar = cards[0].id;
  return undefined;
}
document.addEventListener("click", (event) => {
  const button = event.target.closest?.("[data-hitl-bar]");
  const card = button && document.getElementById(button.dataset.hitlBar);
  if (!card) return;
  card.scrollIntoView({ block: "center" });
  $("[data-hitl-heading]", card)?.focus({ preventScroll: true });
});

let frame = 0;
function later() {
  if (frame) return;
  frame = requestAnimationFrame(() => { frame = 0; notice(); bar(); });
}
function start() {
  new MutationObserver(later).observe(document.body, { subtree: true, childList: true, attributeFilter: ["data-state"] });
  document.addEventListener("scroll", later, { capture: true, passive: true });
  addEventListener("resize", later);
  later();
  bringBack();
}
if (document.readyState !== "loading") start();
else document.addEventListener("DOMContentLoaded", start);
