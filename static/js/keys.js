// keys.js — shortcuts. Single letters do nothing in fields and dialogs, and can be switched off (WCAG 2.1.4).
import { $, $$, isTyping, store } from "./core.js";
import { go } from "./boost.js";
import { focusField } from "./composer.js";
import { togglePalette } from "./palette.js";
import { openAttention, openKeys, toggleDetails } from "./shell.js";

const PREFIX_MS = 1200;
let prefixAt = -Infinity;

function neighbour(step) {
  const rows = $$("#session-list a.session");
  const at = rows.findIndex((row) => row.getAttribute("aria-current") === "page");
  rows[at < 0 ? 0 : at + step]?.click();
}
function lastTools() {
  const last = $$("details.work:not([data-bare]), .tool > details", $("#stream") ?? document.body).filter((one) => one.offsetParent).at(-1);
  if (last) last.open = !last.open;
}
function search() {
  const field = $("main input[type=search]");
  if (!field) return false;
  if (field.closest(".split__list") && !field.offsetParent) $('[data-act="sheet"]')?.click();
  field.focus();
  return true;
}

const KEYS = {
  "?": openKeys,
  "/": search,
  c: focusField,
  n: () => go("/chat/"),
  w: openAttention,
  t: lastTools,
  ".": toggleDetails,
  "[": () => neighbour(-1),
  "]": () => neighbour(1),
};

document.addEventListener("keydown", (event) => {
  if ((event.metaKey || event.ctrlKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k") {
    event.preventDefault();
    togglePalette();
    return;
  }
  if (isTyping(event.target) || event.metaKey || event.ctrlKey || event.altKey || $("dialog[open]")) return;
  if (store.get("singleKeys") === "off" || event.defaultPrevented || event.isComposing) return;
  if (event.timeStamp - prefixAt < PREFIX_MS) {
    prefixAt = -Infinity;
    const panel = $(`.nav__item[data-key="${CSS.escape(event.key.toLowerCase())}"]`);
    if (panel) { event.preventDefault(); panel.click(); return; }
  }
  if (event.key === "g") { prefixAt = event.timeStamp; return; }
  const run = KEYS[event.key];
  if (run && run() !== false) event.preventDefault();
});

const box = $("[data-single-keys]");
if (box) {
  box.checked = store.get("singleKeys") !== "off";
  box.addEventListener("change", () => store.set("singleKeys", box.checked ? null : "off"));
}
