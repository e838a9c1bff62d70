// status.js — what the session is doing: title, top bar, composer and the row above it.
import { $, canWrite, post } from "./core.js";
import { tick } from "./clock.js";
import { link } from "./connection.js";
import { morph } from "./morph.js";
import { currentSession, currentStream } from "./transcript.js";

const FORCE_AFTER_MS = 10_000;
let forceTimer = 0;

document.addEventListener("session.status", ({ detail: v }) => {
  const chat = $("#chat");
  const before = chat.dataset.turn;
  chat.dataset.turn = v.turn;
  for (const [id, html] of [["kicker", v.kicker], ["pending", v.pending]]) {
    const element = document.getElementById(id) && morph(document.getElementById(id), html);
    if (element) tick(element);
  }
  const title = $("#session-title");
  if (title && title.textContent !== v.title) {
    title.textContent = v.title;
    document.title = document.title.replace(/^(\(\d+\) )?.* · /, (_, count) => `${count ?? ""}${v.title} · `);
  }
  $("#incognito-badge").hidden = !v.incognito;
  const form = $("#composer");
  if (form) {
    form.dataset.ask = v.ask;
    $("textarea", form).placeholder = v.placeholder;
    $("[data-steer-label]", form).textContent = v.ask ? "Answer" : "Steer";
    if (v.model) $("[data-model]", form).textContent = v.model;
    label(v.turn, before);
  }
  document.body.dispatchEvent(new CustomEvent("session.state", { detail: { turn: v.turn, before } }));
  if (v.turn !== before && (v.turn === "idle" || v.turn === "waiting")) markSeen();
});

// Stopping is promised within two seconds; after ten, the calls can be ended one by one.
function label(turn, before) {
  const button = $(".composer__stop");
  if (turn === before && turn === "stopping") return;
  clearTimeout(forceTimer);
  delete button.dataset.force;
  button.disabled = turn === "stopping";
  $("[data-label]", button).textContent = turn === "stopping" ? "Stopping…" : "Stop";
  if (turn !== "stopping") return;
  forceTimer = setTimeout(() => {
    button.disabled = false;
    button.dataset.force = "1";
    $("[data-label]", button).textContent = "Force stop";
  }, FORCE_AFTER_MS);
}

// Read marks: what stood here while somebody looked is not new any more.
let seenSeq = 0;
let seenIn = "";
export async function markSeen() {
  const stream = currentStream();
  if (!stream || !canWrite() || document.hidden || stream.hasAttribute("data-partial")) return;
  const seq = link.cursors.get(currentSession()) ?? Number(stream.dataset.seq);
  if (seenIn === currentSession() && seq <= seenSeq) return;
  seenIn = currentSession();
  seenSeq = seq;
  try { await post(`${$("#chat").dataset.base}seen/`, { seq }); } catch { seenSeq = 0; }
}
document.addEventListener("visibilitychange", markSeen);
document.addEventListener("htmx:load", (event) => { if (event.target === document.body || event.target.id === "page") setTimeout(markSeen, 800); });
