// composer.js — the field: keys, drafts, sending, answering, stopping, recalling.
import { $, $$, Refused, isTouch, newId, post, say, sentence, store } from "./core.js";
import { setFollowing, toEnd } from "./follow.js";
import { runEffect } from "./effects.js";
import { describe, giveBack, hasFiles, isSending, sentOff, take, whenSettled } from "./files.js";
import { closeMenu, menuKey, refreshMenu } from "./slash.js";
import { link } from "./connection.js";

const ESC_TWICE_MS = 1000;
const BUSY = ["working", "waiting", "stopping"];
let escapedAt = -Infinity;
let failed = null; // { said, id }: what was refused, so that sending it again is the same message
let editing = null; // the client_id of a pending message that is being changed
let putAside = "";
let sent = Promise.resolve(); // the posts before this one: messages arrive in the order of sending
let opened = { from: "", to: "" }; // the session that the first message of a new one has made

const form = () => $("#composer");
const field = () => $("#composer-text");
const turn = () => $("#chat")?.dataset.turn ?? "idle";
export const base = () => $("#chat")?.dataset.base ?? "";
const draftKey = () => `draft:${form().dataset.draft}`;

// — drafts and size —
function keepDraft() {
  if (!editing) store.set(draftKey(), field().value);
}
export function grow() {
  const area = field();
  if (!area || CSS.supports("field-sizing", "content")) return;
  area.rows = 1;
  area.rows = Math.min(12, Math.max(1, Math.ceil((area.scrollHeight - 12) / 22)));
}
export function setText(text) {
  const area = field();
  area.value = text;
  area.setSelectionRange(text.length, text.length);
  keepDraft();
  grow();
  refreshMenu(area);
}
export function focusField() {
  const area = field();
  if (!area) return;
  area.focus();
  area.setSelectionRange(area.value.length, area.value.length);
}
addEventListener("pagehide", () => { if (form()) keepDraft(); });

function problem(text) {
  const line = $("#composer-problem");
  line.hidden = !text;
  line.textContent = text;
  field().toggleAttribute("aria-invalid", Boolean(text));
}

// — sending —
async function submit(mode) {
  const area = field();
  const text = area.value;
  if (editing) return saveEdit(text);
  if (!text.trim() && !hasFiles()) return;
  problem("");
  closeMenu();
  if (isSending()) return later(mode);
  const files = take();
  const url = form().action;
  const key = draftKey();
  const said = `${files.ids} ${text}`;
  const id = failed?.said === said ? failed.id : newId();
  const fields = { text, mode, client_id: id };
  if (files.ids) fields.attachments = files.ids;
  if (form().dataset.ask && text.trim() && mode !== "queue") {
    fields.answers = form().dataset.ask;
    document.dispatchEvent(new CustomEvent("hitl.answering", { detail: fields.answers }));
  }
  for (const name of ["model", "incognito"]) if (form().elements[name].value) fields[name] = form().elements[name].value;
  setText("");
  store.set(key, text); // until the server has it
  setFollowing(true);
  toEnd();
  try {
    const answer = await inTurn(url, fields, files);
    failed = null;
    if (store.get(key) === text) store.set(key, null);
    if (answer.mode === "command") giveBack(files); else sentOff(files);
    return accepted(answer);
  } catch (refusal) {
    giveBack(files);
    return refused(refusal, text, { said, id }, key);
  }
}

// The message waits for its files; one that does not arrive is for the operator to see first.
function later(mode) {
  problem("Files are still on their way; the message is sent when they are there.");
  whenSettled((hasFailed) => {
    problem(hasFailed ? "Not sent: a file was not attached. Remove it, or send without it." : "");
    if (!hasFailed) submit(mode);
  });
}

function inTurn(url, fields, files) {
  const mine = sent.then(() => describe(files)).then(() => post(opened.from === url ? opened.to : url, fields));
  sent = mine.catch(() => undefined);
  return mine;
}

function accepted(answer) {
  if (answer.mode === "command") return runEffect(answer, { base: base() });
  if (answer.mode === "queue" && !answer.duplicate) say("Queued for after this turn");
  if (!base() && answer.url) return enter(answer.url);
  if (!link.isLive) say("Sent. It appears here when the link is back.");
  return undefined;
}

// Until the page of the new session is there, what is sent belongs to it already.
function enter(url) {
  opened = { from: form().action, to: `${url}send/` };
  return runEffect({ effect: "goto", url }, {});
}

// The text comes back, in front of what has been typed since.
function refused(refusal, text, attempt, key) {
  const area = field();
  if (!area || draftKey() !== key) return; // the page shows another session by now; its draft has it
  failed = refusal instanceof Refused && refusal.status === 0 ? attempt : null;
  const since = area.value;
  setText([text, since].filter(Boolean).join("\n"));
  problem(sentence(refusal.status === 0 ? `Not sent: ${refusal.message}` : refusal.message));
  focusField();
}

export async function retry(turnId) {
  try {
    setFollowing(true);
    await post(`${base()}send/`, { retry: turnId, client_id: newId() });
  } catch (refusal) {
    problem(sentence(refusal.message));
  }
}

// — pending messages are changed in the field —
export function edit(clientId, text) {
  if (!editing) putAside = field().value;
  editing = clientId;
  form().toggleAttribute("data-editing", true);
  $("#composer-edit").hidden = false;
  const area = field();
  area.value = text;
  grow();
  focusField();
}
function endEdit() {
  editing = null;
  form().toggleAttribute("data-editing", false);
  $("#composer-edit").hidden = true;
  field().value = putAside;
  putAside = "";
  grow();
  keepDraft();
}
async function saveEdit(text) {
  try {
    await post(`${base()}pending/`, { do: "edit", client_id: editing, text });
    endEdit();
    say("Message changed");
  } catch (refusal) {
    problem(sentence(refusal.message));
  }
}

// — stopping —
export async function stop() {
  const button = $(".composer__stop");
  const force = button?.dataset.force === "1";
  if (button) { button.disabled = true; $("[data-label]", button).textContent = "Stopping…"; }
  try {
    const answer = await post(`${base()}stop/`, force ? { force: 1 } : {});
    say(answer.stopped ? "Stopping" : "Nothing is running");
  } catch (refusal) {
    problem(sentence(refusal.message));
    if (button) { button.disabled = false; $("[data-label]", button).textContent = "Stop"; }
  }
}

function escape(event) {
  if (editing) return endEdit();
  if (!BUSY.includes(turn())) return field().blur();
  event.preventDefault();
  if (event.timeStamp - escapedAt < ESC_TWICE_MS) { escapedAt = -Infinity; return stop(); }
  escapedAt = event.timeStamp;
  say("Press Esc again to stop the turn");
  return undefined;
}

// ↑ in an empty field: the last message, or while the agent works, the newest that waits.
function recall() {
  const waiting = $$(".pending__item").at(-1);
  if (waiting && BUSY.includes(turn())) return edit(waiting.dataset.client, $(".pending__text", waiting).textContent);
  const last = $$(".msg--user .msg__body").at(-1);
  if (last) setText(last.textContent);
  return undefined;
}

function newLine(area) {
  area.setRangeText("\n", area.selectionStart, area.selectionEnd, "end");
  area.dispatchEvent(new Event("input", { bubbles: true }));
}

document.addEventListener("keydown", (event) => {
  const area = event.target;
  if (area.id !== "composer-text" || event.isComposing || event.keyCode === 229) return undefined;
  if (menuKey(event)) return undefined;
  if (event.key === "Escape") return escape(event);
  if (event.key === "ArrowUp" && !area.value && !event.shiftKey) { event.preventDefault(); return recall(); }
  if (event.key !== "Enter") return undefined;
  if (event.ctrlKey || event.metaKey) { event.preventDefault(); return newLine(area); }
  if (event.shiftKey || isTouch.matches) return undefined;
  event.preventDefault();
  const isBusy = BUSY.includes(turn());
  return submit(isBusy ? (event.altKey ? "queue" : "steer") : "turn");
});
document.addEventListener("input", (event) => {
  if (event.target.id !== "composer-text") return;
  problem("");
  keepDraft();
  grow();
  refreshMenu(event.target);
});
document.addEventListener("submit", (event) => {
  if (event.target.id !== "composer") return;
  event.preventDefault();
  submit(BUSY.includes(turn()) ? "steer" : "turn");
  if (!isTouch.matches) focusField();
});
document.addEventListener("click", (event) => {
  const act = event.target.closest("[data-act]")?.dataset.act;
  if (act === "stop") stop();
  if (act === "edit-cancel") endEdit();
});

function attach() {
  const area = field();
  if (!area || area.dataset.ready) return;
  area.dataset.ready = "1";
  editing = null;
  failed = null;
  if (form().action === opened.from) opened = { from: "", to: "" };
  if (!area.value) area.value = store.get(draftKey()) ?? "";
  grow();
}
document.addEventListener("htmx:load", attach);
attach();
