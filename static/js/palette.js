// palette.js — jump to a page or session, or run a command. The server finds; this chooses.
import { $, $$, newId } from "./core.js";
import { runCommand } from "./effects.js";

const dialog = () => $("#palette");
const input = () => $("#palette-input");
const options = () => $$('#palette-list [role="option"]');
const chosen = () => $('#palette-list [aria-selected="true"]');

function select(option) {
  for (const other of options()) other.setAttribute("aria-selected", String(other === option));
  if (option) { input().setAttribute("aria-activedescendant", option.id); option.scrollIntoView({ block: "nearest" }); } else input().removeAttribute("aria-activedescendant");
}

export function togglePalette() {
  if (dialog().open) { dialog().close(); return; }
  for (const other of $$("dialog[open]")) other.close();
  input().value = "";
  dialog().showModal();
  globalThis.htmx.trigger(input(), "palette.open");
}

function run(option) {
  dialog().close();
  if (option.dataset.command) {
    const base = $("#chat")?.dataset.base;
    runCommand(option.dataset.command, base ? `${base}send/` : "/chat/", newId());
  } else {
    option.click();
  }
}

document.addEventListener("htmx:afterSwap", (event) => {
  if (event.detail.target?.id === "palette-list") select(options()[0] ?? null);
});
document.addEventListener("keydown", (event) => {
  if (!dialog().open) return;
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    const all = options();
    if (all.length) select(all[(all.indexOf(chosen()) + (event.key === "ArrowDown" ? 1 : -1) + all.length) % all.length]);
  } else if (event.key === "Enter" && chosen()) {
    event.preventDefault();
    run(chosen());
  }
});
document.addEventListener("click", (event) => {
  if (event.target.closest('[data-act="palette"]')) togglePalette();
  const option = event.target.closest('#palette-list [data-command]');
  if (option) run(option);
  else if (event.target.closest("#palette-list a")) dialog().close();
});
