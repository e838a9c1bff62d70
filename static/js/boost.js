// boost.js — moving between pages without losing the live link: only #page is exchanged.
import { $, $$, isTouch, say } from "./core.js";

const INTO_PAGE = { "hx-boost": "true", "hx-target": "#page", "hx-select": "#page", "hx-swap": "outerHTML show:none" };
let listTop = 0;

export function go(url) {
  return globalThis.htmx.ajax("GET", url, { target: "#page", select: "#page", swap: "outerHTML show:none", push: url, headers: { "HX-Boosted": "true" } });
}

function prepare(within) {
  for (const anchor of $$("a.nav__item, a.session, .sessions__top a, #palette-list a, #attention-list a.attention__link, a[data-boost]", within)) {
    if (anchor.hasAttribute("hx-boost") || anchor.hasAttribute("hx-get")) continue;
    for (const [name, value] of Object.entries(INTO_PAGE)) anchor.setAttribute(name, value);
    globalThis.htmx.process(anchor);
  }
}

function markPlace() {
  const panel = $("#page")?.dataset.panel;
  for (const anchor of $$(".nav__item")) {
    if (anchor.dataset.panel === panel) anchor.setAttribute("aria-current", "page");
    else anchor.removeAttribute("aria-current");
  }
}

document.addEventListener("htmx:beforeSwap", (event) => {
  if (event.detail.target?.id !== "page") return;
  listTop = $("#chat-list")?.scrollTop ?? 0;
  for (const dialog of $$("dialog[open]")) dialog.close();
});
document.addEventListener("htmx:load", (event) => {
  prepare(event.target);
  markPlace();
  if (event.target.id !== "page") return;
  const list = $("#chat-list");
  if (list) list.scrollTop = listTop;
  const field = $("#composer-text");
  if (field && !isTouch.matches && !location.hash) field.focus(); else $("#main").focus({ preventScroll: true });
  say($("h1")?.textContent.trim() ?? "");
});
// The address of a page that an error kept from arriving is not this page's.
document.addEventListener("htmx:responseError", (event) => {
  if (event.detail.target?.id === "page") location.assign(event.detail.pathInfo.requestPath);
});
markPlace();
