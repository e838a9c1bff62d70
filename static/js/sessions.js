// sessions.js — the session list: instant filter, menu, inline rename, dialogs, calm live refresh.
// Everything hangs on one listener per event, so fragments need no set-up when they arrive.

import { $, $$, say, store } from "./core.js";

const list = () => document.getElementById("session-list");
const finePointer = matchMedia("(pointer: fine)");
const UNDO_MS = 6000;

// — filter: titles at once, while the server looks through the messages —
function filterRows(text) {
  const wanted = text.trim().toLowerCase();
  for (const section of $$(".sessions__section", list() ?? undefined)) {
    let any = false;
    for (const row of $$("[data-session]", section)) {
      const title = $(".session__title", row)?.textContent.toLowerCase() ?? "";
      row.hidden = Boolean(wanted) && !title.includes(wanted);
      any ||= !row.hidden;
    }
    section.hidden = Boolean(wanted) && !any;
  }
}

// — live refresh: no row moves away under the pointer, nor a form that is being filled in —
let isStale = false;
let ownUntil = 0; // what the person does here moves rows at once, also under the pointer
document.addEventListener("session.changed", (event) => { if (event.detail?.own) ownUntil = performance.now() + 2000; });
function isBusy() {
  const here = list();
  const hovered = finePointer.matches && here?.matches(":hover");
  return Boolean(here) && (hovered || Boolean($("[data-busy], [data-sessions-select] :checked", here)) || isMenuOpen());
}

function refreshInPlace(html) {
  const fresh = new DOMParser().parseFromString(html, "text/html");
  for (const row of $$("li[data-session]:not([data-busy])", list())) {
    const now = fresh.getElementById(row.id);
    if (!now) continue;
    window.Idiomorph.morph(row, now.outerHTML, { morphStyle: "outerHTML" });
    const kept = document.getElementById(row.id);
    if (kept) window.htmx.process(kept);
  }
  isStale = true;
  markDrafts();
}

function catchUp() {
  if (!isStale || isBusy()) return;
  isStale = false;
  ownUntil = performance.now() + 500;
  window.htmx.trigger(document.body, "sessions.refresh");
}

// An answer to what was asked before: a slow refresh must not undo a search, a filter or a mode.
function isOutdated({ requestConfig, pathInfo }) {
  const { elt } = requestConfig;
  if (elt?.id === "session-list" && requestConfig.path !== list()?.getAttribute("hx-get")) return true;
  const field = $("[data-sessions-filter]");
  if (!field || !elt?.matches?.("#session-list, [data-sessions-filter]")) return false;
  const asked = new URL(pathInfo.finalRequestPath, location.href).searchParams.get("q") ?? "";
  return asked.trim() !== field.value.trim();
}
document.addEventListener("htmx:beforeSwap", (event) => {
  const { requestConfig, xhr, target } = event.detail;
  if (target?.id !== "session-list") return;
  if (isOutdated(event.detail)) {
    event.detail.shouldSwap = false;
    isStale = true;
    setTimeout(catchUp, 150);
    return;
  }
  if (requestConfig.elt?.id !== "session-list") return;
  const isOwn = performance.now() < ownUntil && !$("[data-busy]", target);
  if (xhr.status !== 200 || isOwn || !isBusy()) return;
  event.detail.shouldSwap = false;
  refreshInPlace(xhr.responseText);
});
document.addEventListener("pointerout", (event) => {
  const here = list();
  if (isStale && here && !here.contains(event.relatedTarget)) setTimeout(catchUp, 150);
});

// — second line of a row that has an unsent text —
function markDrafts() {
  for (const row of $$("#session-list li[data-session]")) {
    const draft = store.get(`draft:${row.dataset.session}`) ?? store.get(`draft-files:${row.dataset.session}`);
    const link = $(".session", row);
    const mark = $("[data-draft-mark]", row);
    const wanted = Boolean(draft?.trim()) && !$(".session__sub:not([data-draft-mark])", row);
    if (!wanted) mark?.remove();
    if (wanted && !mark && link) {
      const line = document.createElement("span");
      line.className = "session__sub";
      line.dataset.draftMark = "";
      line.textContent = "Draft";
      link.append(line);
    }
  }
}

// — the menu of a row: one popover, filled by the server —
const pop = () => document.getElementById("session-pop");
let opener = null;
function isMenuOpen() { return Boolean(pop()?.matches(":popover-open")); }

function openMenu() {
  const menu = pop();
  if (!menu || !opener) return;
  menu.showPopover();
  const from = opener.getBoundingClientRect();
  const size = menu.getBoundingClientRect();
  const below = from.bottom + size.height + 8 < innerHeight;
  menu.style.top = `${Math.max(8, below ? from.bottom + 4 : from.top - size.height - 4)}px`;
  menu.style.left = `${Math.max(8, Math.min(from.left, innerWidth - size.width - 8))}px`;
  opener.setAttribute("aria-expanded", "true");
  $(".menu__item", menu)?.focus();
}
function closeMenu() { if (isMenuOpen()) pop().hidePopover(); }

document.addEventListener("toggle", (event) => {
  if (event.target !== pop() || event.newState !== "closed") return;
  opener?.setAttribute("aria-expanded", "false");
  if (pop().contains(document.activeElement) || document.activeElement === document.body) opener?.focus();
  setTimeout(catchUp, 150);
}, true);

function moveInMenu(event) {
  const items = $$("a.menu__item, button.menu__item", pop());
  const at = items.indexOf(document.activeElement);
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: items.length - 1 }[event.key];
  if (to === undefined || !items.length) return;
  event.preventDefault();
  items[(to + items.length) % items.length].focus();
}

// — rename in the row —
function rename(key) {
  const row = $$("#session-list li[data-session]").find((item) => item.dataset.session === key);
  const link = row && $("[data-rename-url]", row);
  if (!row || !link) return false;
  closeMenu();
  window.htmx.ajax("GET", link.dataset.renameUrl, { target: row, swap: "outerHTML settle:0ms" });
  return true;
}
function cancelRename(form) {
  const row = form.closest("li");
  const key = row.dataset.session;
  window.htmx.ajax("GET", form.dataset.cancel, { target: row, swap: "outerHTML settle:0ms" }).then(() => {
    $$("#session-list li[data-session]").find((item) => item.dataset.session === key)?.querySelector(".session")?.focus();
    catchUp();
  });
}

// — dialogs that the server sends —
function openDialog(dialog) {
  const before = document.activeElement;
  dialog.addEventListener("close", () => { dialog.remove(); if (before?.isConnected) before.focus(); }, { once: true });
  dialog.removeAttribute("open");
  dialog.showModal();
}

function countChosen() {
  const form = $("[data-sessions-select]");
  if (!form) return;
  const count = $$("input[name=key]:checked", form).length;
  $("[data-sessions-chosen]", form).textContent = count ? `${count} chosen` : "None chosen";
}

async function copyLink(path) {
  try {
    await navigator.clipboard.writeText(new URL(path, location.href).href);
    say("Link copied");
  } catch {
    say("The browser refused to copy");
  }
  closeMenu();
}

document.addEventListener("input", (event) => {
  if (event.target.matches?.("[data-sessions-filter]")) filterRows(event.target.value);
});
document.addEventListener("change", (event) => {
  if (event.target.closest?.("[data-sessions-select]")) countChosen();
});
document.addEventListener("click", (event) => {
  const target = event.target.closest?.("[data-session-menu], [data-rename], [data-copy-link], [data-close-dialog], [data-sessions-clear]");
  if (!target) return;
  if (target.matches("[data-session-menu]")) opener = target;
  if (target.matches("[data-rename]") && rename(target.dataset.rename)) event.preventDefault();
  if (target.matches("[data-copy-link]")) copyLink(target.dataset.copyLink);
  if (target.matches("[data-sessions-clear]")) { const field = $("[data-sessions-filter]"); if (field) field.value = ""; }
  const dialog = target.matches("[data-close-dialog]") && target.closest("dialog:modal");
  if (dialog) { event.preventDefault(); dialog.close(); }
});
document.addEventListener("submit", (event) => {
  if (event.target.matches("[data-close-on-submit]")) event.target.closest("dialog:modal")?.close();
});
document.addEventListener("keydown", (event) => {
  if (isMenuOpen() && pop().contains(event.target)) return moveInMenu(event);
  const form = event.target.closest?.("[data-session-rename]");
  if (form && event.key === "Escape") { event.preventDefault(); return cancelRename(form); }
  if (event.key === "F2") {
    const row = event.target.closest?.("li[data-session]") ?? $('#session-list .session[aria-current="page"]')?.closest("li");
    if (row && rename(row.dataset.session)) event.preventDefault();
  }
  return undefined;
});
document.addEventListener("focusout", (event) => {
  const form = event.target.closest?.("[data-session-rename]");
  if (!form || form.contains(event.relatedTarget)) return;
  const field = $("input[name=title]", form);
  if (field.value === field.defaultValue && !field.hasAttribute("aria-invalid")) cancelRename(form);
});

document.addEventListener("htmx:beforeRequest", (event) => {
  if (pop()?.contains(event.detail.elt)) closeMenu();
});
document.addEventListener("htmx:beforeSwap", (event) => {
  // A refused title comes back as the form with its reason.
  if (event.detail.xhr.status === 422 && event.detail.elt?.matches?.("[data-session-rename]")) {
    event.detail.shouldSwap = true;
    event.detail.isError = false;
  }
});
document.addEventListener("htmx:afterSwap", (event) => {
  if (event.detail.target?.id === "session-pop") openMenu();
});
document.addEventListener("htmx:load", (event) => arrived(event.target));

function arrived(root) {
  const found = (selector) => (root.matches?.(selector) ? [root] : $$(selector, root));
  found("dialog[data-modal]").forEach(openDialog);
  for (const field of found("[data-session-rename] input[name=title]")) { field.focus(); field.select(); }
  for (const banner of found("[data-sessions-undo]")) setTimeout(() => leave(banner), UNDO_MS);
  if (root === document.body || root.closest?.("#session-list") || found("#session-list").length) {
    markDrafts();
    countChosen();
    const field = $("[data-sessions-filter]");
    if (field?.value && !$(".session--hit") && document.activeElement === field) say($("#session-count")?.textContent ?? "");
  }
}
function leave(banner) {
  if (banner.matches(":hover, :focus-within, .htmx-request")) setTimeout(leave, 1000, banner);
  else banner.remove();
}
addEventListener("storage", (event) => { if (/^draft(-files)?:/.test(event.key ?? "")) markDrafts(); });
if (document.readyState !== "loading") markDrafts();
else document.addEventListener("DOMContentLoaded", markDrafts);
