// connection.js — the page's link and everything that tells about it: foot, banner, bus.
import { $, channel, root, signIn } from "./core.js";
import { Link } from "./link.js";
import { setServerTime } from "./clock.js";

const BANNER_AFTER_MS = 1500;
const ASK_AFTER_MS = 4000;
const ASK_EVERY_MS = 3000;
const LABELS = { live: "Live", connecting: "Reconnecting", offline: "Offline", refused: "No live link", "signed-out": "Signed out" };
const handlers = { ops: [], reset: [], status: [], gone: [], connection: [], ask: [] };
let lostAt = 0;
let retryAt = 0;
let state = "";

export const on = (kind, handler) => { handlers[kind].push(handler); };
const tell = (kind, frame) => { for (const handler of handlers[kind]) handler(frame); };

export const link = new Link(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws/`, {
  ops: (frame) => tell("ops", frame),
  reset: (frame) => tell("reset", frame),
  gone: (frame) => tell("gone", frame),
  status: (frame) => tell("status", frame),
  connection: changed,
  bus: (topic, data) => document.body.dispatchEvent(new CustomEvent(topic, { detail: data, bubbles: true })),
  hello: (frame) => {
    if (frame.now) setServerTime(frame.now);
    if (frame.waiting !== undefined) document.body.dispatchEvent(new CustomEvent("attention.changed", { detail: { count: frame.waiting }, bubbles: true }));
  },
});

function changed(now, wait) {
  if (now === "signed-out") return signedOut();
  if (now === "live") { lostAt = 0; retryAt = 0; } else { lostAt ||= performance.now(); retryAt = wait ? performance.now() + wait : 0; }
  state = now;
  draw();
  tell("connection", now);
  return undefined;
}

function signedOut() {
  state = "signed-out";
  draw();
  tell("connection", "signed-out");
  signIn();
}

function draw() {
  const foot = $("#link-state");
  const shown = state === "connecting" && !navigator.onLine ? "offline" : state;
  // The first connection is no re-connection, and a gap of a moment is none worth telling.
  const isQuiet = state === "connecting" && (!link.wasOpen || performance.now() - lostAt < BANNER_AFTER_MS);
  if (foot && !(isQuiet && link.wasOpen)) {
    foot.dataset.state = shown === "signed-out" || shown === "refused" ? "offline" : shown;
    const label = link.wasOpen || state !== "connecting" ? LABELS[shown] : "Connecting";
    if (foot.textContent !== label) foot.textContent = label;
  }
  const banner = $("#link-banner");
  if (!banner) return;
  banner.hidden = state === "live" || performance.now() - (lostAt || performance.now()) < BANNER_AFTER_MS;
  const left = Math.ceil((retryAt - performance.now()) / 1000);
  const trying = left > 0 ? `Next try in ${left} s.` : "Trying now…";
  const text = state === "refused" ? "The server refused the live link; this page asks for news by itself." : trying;
  const place = $("[data-countdown]", banner);
  if (place.textContent !== text) place.textContent = text;
}

setInterval(() => { if (state && state !== "live") draw(); }, 250);

// Without a link for a while (a proxy in between may not let it through) the page asks now and then.
setInterval(() => {
  if (document.hidden || !navigator.onLine || !lostAt || performance.now() - lostAt < ASK_AFTER_MS) return;
  tell("ask", null);
}, ASK_EVERY_MS);
for (const name of ["online", "offline"]) addEventListener(name, draw);
document.addEventListener("click", (event) => {
  if (event.target.closest('[data-act="reconnect"]')) link.check();
});
document.addEventListener("htmx:load", draw);
// Another tab has signed this browser out: what is in the field goes with it.
channel?.addEventListener("message", (event) => {
  const field = event.data.signedOut && $("#composer-text");
  if (field) field.value = "";
});
root.dataset.link = "1";
link.open();
