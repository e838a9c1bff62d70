// transcript.js — the transcript follows the live link. Operations name elements by id; see console/ops.py.
import { $, $$ } from "./core.js";
import { announce } from "./announce.js";
import { tick } from "./clock.js";
import { link, on } from "./connection.js";
import { attach as attachFollow, count, following, setFollowing } from "./follow.js";
import { morph } from "./morph.js";

const BUDGET_MS = 12;
const UNSEEN_MS = 250;
const MOST_MESSAGES = 300;
const LEAVE_OUT = 120;
const OUTLINED_MS = 6000;

let stream = null;
let session = "";
let queue = [];
let isScheduled = false;
let timer = 0;
let frameRequest = 0;

const byId = (id) => document.getElementById(id);

// — where the page stands —
export function attach() {
  const now = $("#stream[data-session]");
  if (now === stream) return;
  if (session && session !== now?.dataset.session) link.leave(session);
  queue = [];
  stream = now;
  session = now?.dataset.session ?? "";
  const log = $("#log");
  if (!stream) {
    if (log) attachFollow(log, log.firstElementChild, { follow: false });
    return;
  }
  const target = findTarget();
  attachFollow(log, stream, { follow: !target && !stream.hasAttribute("data-partial") });
  if (target) show(target);
  link.follow(session, Number(stream.dataset.seq));
}

function findTarget() {
  const wanted = decodeURIComponent(location.hash.slice(1));
  const element = (stream.dataset.target && byId(stream.dataset.target)) || (wanted && byId(wanted));
  if (element && stream.contains(element)) return element;
  // A link to something older than this page: open the page around it.
  if (/^(m|call|hitl)-/.test(wanted) && !new URLSearchParams(location.search).has("at")) {
    location.replace(`${location.pathname}?at=${encodeURIComponent(wanted)}#${encodeURIComponent(wanted)}`);
  }
  return null;
}

export function show(element) {
  setFollowing(false);
  for (let parent = element.parentElement; parent; parent = parent.parentElement) if (parent.matches("details")) parent.open = true;
  const details = element.matches(".tool") ? $("details", element) : null;
  if (details) details.open = true;
  for (const marked of $$(".is-target", stream)) marked.classList.remove("is-target");
  element.classList.add("is-target");
  setTimeout(() => element.classList.remove("is-target"), OUTLINED_MS);
  element.scrollIntoView({ block: element.matches(".msg") ? "start" : "center" });
}

// — frames —
// In one queue, so that no state is shown before what led to it.
for (const kind of ["ops", "status"]) on(kind, (frame) => { queue.push(frame); schedule(); });
on("reset", (frame) => {
  queue = [];
  if (frame.sid !== session) return;
  stream.innerHTML = frame.h;
  stream.dataset.seq = frame.s;
  arrived(stream);
});
let isAsking = false;
on("ask", async () => {
  if (!session || isAsking || stream.hasAttribute("data-partial")) return;
  isAsking = true;
  const asked = session;
  try {
    const url = `${$("#chat").dataset.base}news/?after=${link.cursors.get(session)}`;
    const response = await fetch(url, { credentials: "same-origin", headers: { Accept: "application/json" } });
    if (response.ok && asked === session && !link.isLive) takeNews(await response.json());
  } catch { /* the banner says that there is no connection */ } finally { isAsking = false; }
});
function takeNews({ seq, html, state }) {
  if (html !== null && seq > link.cursors.get(session)) {
    link.cursors.set(session, seq);
    queue = [];
    change(stream, `<div class="chat__stream" id="stream" data-session="${session}" data-seq="${seq}">${html}</div>`);
    stream = byId("stream");
  }
  document.dispatchEvent(new CustomEvent("session.status", { detail: state }));
}

on("gone", (frame) => {
  if (frame.sid !== session) return;
  link.leave(session);
  document.dispatchEvent(new CustomEvent("session.gone"));
});

function schedule() {
  if (isScheduled) return;
  isScheduled = true;
  // A page that is not seen draws no frames; it must be right all the same when it is looked at.
  timer = setTimeout(flush, document.hidden ? 0 : UNSEEN_MS);
  frameRequest = requestAnimationFrame(flush);
}
document.addEventListener("visibilitychange", () => { if (document.hidden && isScheduled) flush(); });

function flush() {
  clearTimeout(timer);
  cancelAnimationFrame(frameRequest);
  isScheduled = false;
  const until = performance.now() + BUDGET_MS;
  let added = 0;
  while (queue.length && (document.hidden || performance.now() < until)) {
    const frame = queue.shift();
    if (frame.sid !== session) continue;
    if (frame.t === "state") { document.dispatchEvent(new CustomEvent("session.status", { detail: frame.v })); continue; }
    for (const op of frame.ops) added += apply(op);
    stream.dataset.seq = frame.s;
    announce(frame);
  }
  if (queue.length) schedule();
  if (added) count(added);
  trim();
  document.dispatchEvent(new CustomEvent("transcript.changed"));
}

// One operation; how many new blocks it brought.
export function apply(op) {
  const run = OPERATIONS[op.t];
  return run ? run(op) : 0;
}

function fragment(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content;
}

function arrived(element) {
  globalThis.htmx.process(element);
  globalThis.htmx.trigger(element, "htmx:load", { elt: element });
  tick(element);
}

function change(old, html) {
  const element = morph(old, html);
  if (element) arrived(element);
  return 0;
}

const OPERATIONS = {
  msg(op) {
    const old = byId(op.id);
    if (old) return change(old, op.h);
    if (stream.hasAttribute("data-partial")) return 1; // the page ends before it: Latest leads there
    const article = fragment(op.h).firstElementChild;
    const place = op.after && byId(op.after);
    if (place) place.after(article); else stream.append(article);
    if (!byId(op.day.id)) article.before(fragment(op.day.h));
    arrived(article);
    return 1;
  },
  put(op) {
    const old = byId(op.id);
    if (old) return change(old, op.h);
    const inside = byId(op.in);
    if (!inside) return 0;
    const element = fragment(op.h).firstElementChild;
    inside.append(element);
    arrived(element);
    return 1;
  },
  set(op) {
    const old = byId(op.id);
    return old ? change(old, op.h) : 0;
  },
  drop(op) {
    byId(op.id)?.remove();
    return 0;
  },
  block(op) {
    const tail = byId(op.id)?.lastElementChild;
    if (!tail) return 0;
    tail.before(fragment(op.h));
    tail.replaceChildren();
    return 1;
  },
  tail(op) {
    const tail = byId(op.id)?.lastElementChild;
    if (tail) tail.innerHTML = op.h;
    return 0;
  },
  text(op) {
    $(".prose__tail code", byId(op.id) ?? document.createElement("i"))?.insertAdjacentHTML("beforeend", op.h);
    return 0;
  },
  fin(op) {
    const tail = byId(op.id)?.lastElementChild;
    tail?.replaceWith(fragment(op.h));
    return 1;
  },
};

// An answer is a message too: what comes of it is followed.
document.addEventListener("htmx:beforeRequest", (event) => {
  if (event.detail.requestConfig?.verb === "post" && event.detail.elt.closest?.("#stream .hitl")) setFollowing(true);
});

// — older messages —
let kept = null;
document.addEventListener("htmx:beforeSwap", (event) => {
  if (event.detail.target?.id !== "older" || event.detail.xhr.status !== 200) return;
  const log = $("#log");
  const first = $(".msg", stream);
  kept = first && { id: first.id, top: first.getBoundingClientRect().top, log };
  setFollowing(false);
});
document.addEventListener("htmx:afterSwap", () => {
  if (!kept) return;
  const first = byId(kept.id);
  // Both pages begin their oldest day with a separator.
  const days = new Set();
  for (const day of $$(".chat__day", stream)) { if (days.has(day.id)) day.remove(); else days.add(day.id); }
  if (first) kept.log.scrollTop += first.getBoundingClientRect().top - kept.top;
  kept = null;
});

// A page that is open for days does not grow without end.
function trim() {
  if (!stream || !following() || stream.querySelectorAll(":scope > .msg").length <= MOST_MESSAGES) return;
  for (const message of [...stream.querySelectorAll(":scope > .msg")].slice(0, LEAVE_OUT)) {
    let before = message.previousElementSibling;
    while (before) { const next = before.previousElementSibling; before.remove(); before = next; }
    message.remove();
  }
  const first = $(":scope > .msg", stream);
  const path = location.pathname;
  const template = byId("older-template")?.content.firstElementChild.cloneNode(true);
  if (!first || !template) return;
  template.setAttribute("href", `${path}?before=${first.id}`);
  template.setAttribute("hx-get", `${path}messages/?before=${first.id}`);
  stream.prepend(template);
  globalThis.htmx.process(template);
}

document.addEventListener("click", (event) => {
  if (!event.target.closest('[data-act="latest"]')) return;
  if (stream?.hasAttribute("data-partial")) location.assign(location.pathname);
  else setFollowing(true);
  const log = $("#log");
  log.scrollTop = log.scrollHeight;
});
addEventListener("hashchange", () => {
  const element = stream && findTarget();
  if (element) show(element);
});
document.addEventListener("htmx:load", attach);
export const currentSession = () => session;
export const currentStream = () => stream;
