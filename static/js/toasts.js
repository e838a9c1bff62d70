// toasts.js — notices for six seconds, with Undo where the server offers it.
// Usage: HX-Trigger: {"toast": {"kind": "ok", "text": "…", "undo": "/url/"}}, or toast("…", "err").
import { $, post, say, sentence } from "./core.js";

const SHOWN_MS = 6000;
const ICONS = { ok: "circle-check", err: "circle-alert", warn: "triangle-alert" };

export function icon(name) {
  const sprite = $("use")?.getAttribute("href").split("#")[0] ?? "";
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  use.setAttribute("href", `${sprite}#${name}`);
  svg.append(use);
  return svg;
}

export function toast(text, kind = "ok", undo = "") {
  const box = document.createElement("div");
  box.className = `toast toast--${kind}`;
  const body = document.createElement("div");
  body.textContent = text;
  box.append(icon(ICONS[kind] ?? ICONS.ok), body);
  if (undo) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "btn btn--ghost btn--sm";
    button.textContent = "Undo";
    button.addEventListener("click", () => takeBack(box, button, undo));
    box.append(button);
  }
  $("#toasts").append(box);
  say(text);
  const leave = () => { if (box.matches(":hover, :focus-within")) setTimeout(leave, 1000); else box.remove(); };
  setTimeout(leave, SHOWN_MS);
}

async function takeBack(box, button, url) {
  button.disabled = true;
  try {
    await post(url);
    box.remove();
    say("Undone");
    document.body.dispatchEvent(new CustomEvent("session.changed"));
  } catch (problem) {
    box.remove();
    toast(sentence(problem.message), "err");
  }
}

document.addEventListener("toast", (event) => {
  const { text, kind, undo } = event.detail ?? {};
  if (text) toast(text, kind, undo);
});
document.addEventListener("htmx:load", () => {
  const notice = $("[data-notice]");
  if (!notice) return;
  toast(notice.dataset.notice, "warn");
  notice.remove();
});
document.addEventListener("htmx:sendError", () => toast("No connection to the server.", "err"));
document.addEventListener("htmx:responseError", (event) => {
  const { xhr } = event.detail;
  if (!xhr.getResponseHeader("HX-Trigger") && xhr.status !== 401) toast(`That did not work (${xhr.status}).`, "err");
});
