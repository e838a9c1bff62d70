// copy.js — copying a message as it was written, code, tool texts, tables as CSV, and links.
import { $, $$, root, say, store } from "./core.js";
import { icon, toast } from "./toasts.js";

const DONE_MS = 1500;

async function write(text) {
  // Text that is still on its way must be promised to the clipboard while the click counts.
  if (typeof text !== "string" && globalThis.ClipboardItem) {
    const blob = Promise.resolve(text).then((value) => new Blob([value], { type: "text/plain" }));
    return navigator.clipboard.write([new ClipboardItem({ "text/plain": blob })]);
  }
  return navigator.clipboard.writeText(await text);
}

function csv(table) {
  const cell = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  return $$("tr", table).map((row) => $$("th, td", row).map((one) => cell(one.textContent.trim())).join(",")).join("\n");
}

async function source(message) {
  const url = `${$("#chat").dataset.base}messages/${message.id.slice(2)}/source/`;
  const response = await fetch(url, { credentials: "same-origin", headers: { Accept: "text/plain" } });
  if (!response.ok) throw new Error(response.status);
  return response.text();
}

function textOf(button) {
  const { act } = button.dataset;
  if (act === "copy-table") return csv($("table", button.closest(".cmp")));
  if (act === "copy-message") return source(button.closest(".msg"));
  if (act === "link") return new URL(`#${button.closest(".msg").id}`, location.origin + location.pathname).href;
  const code = button.closest(".code");
  if (code) return $("code", code).textContent;
  const part = button.closest(".tool__sec");
  const list = $(".tool__args", part);
  if (list) return $$("dt", list).map((name) => `${name.textContent}: ${name.nextElementSibling.textContent}`).join("\n");
  return ($("pre", part) ?? $("[data-copy-source]", part)).innerText;
}

async function copy(button) {
  try {
    await write(textOf(button));
  } catch {
    toast("The browser refused to copy.", "err");
    return;
  }
  say(button.dataset.act === "link" ? "Link copied" : "Copied");
  const use = $("use", button);
  const before = use?.getAttribute("href");
  button.dataset.done = "1";
  use?.setAttribute("href", $("use", icon("check")).getAttribute("href"));
  setTimeout(() => { delete button.dataset.done; if (before) use.setAttribute("href", before); }, DONE_MS);
}

function expand(button) {
  const block = button.closest(".code");
  const isOpen = block.toggleAttribute("data-expanded");
  button.textContent = isOpen ? "Collapse" : "Expand";
}

function wrap() {
  store.set("wrap", root.toggleAttribute("data-wrap") ? "1" : null);
}
root.toggleAttribute("data-wrap", store.get("wrap") === "1");

const ACTS = { copy, "copy-table": copy, "copy-message": copy, link: copy, expand, wrap };
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-act]");
  const act = button && ACTS[button.dataset.act];
  if (act) act(button);
});
