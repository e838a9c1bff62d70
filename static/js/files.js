// files.js — the files of the message that is being written: chips, uploads, what a reload finds again.
import { $, $$, channel, cookie, newId, post, say, sentence, signIn, store } from "./core.js";
import { toast } from "./toasts.js";

const lists = new Map(); // draft → its files: sending, ready, failed, or flying with a message
let settled = null; // what waits for the uploads

const form = () => $("#composer");
const here = () => form()?.dataset.draft;
const listOf = (draft) => lists.get(draft) ?? lists.set(draft, []).get(draft);
const storeKey = (draft) => `draft-files:${draft}`;
const urlOf = (id) => `${form().dataset.filesUrl}${id}/`;
const chipOf = (file) => $(`#composer-files [data-file="${file.key}"]`);
const isKept = (file) => file.state !== "failed";

export function sizeOf(bytes) {
  if (bytes < 1024) return bytes === 1 ? "1 byte" : `${bytes} bytes`;
  if (Math.round(bytes / 1024) < 1024) return `${Math.round(bytes / 1024)} KB`;
  return `${(bytes / 1024 ** 2).toFixed(1).replace(".0", "")} MB`;
}

// — what a draft has —
function keep(draft) {
  const kept = listOf(draft).filter(isKept).map(({ id, name, size, kind, alt, pasted }) => ({ id, name, size, kind, alt, pasted }));
  store.set(storeKey(draft), kept.length ? JSON.stringify(kept) : null);
}
function forget(draft, gone) {
  for (const file of gone) if (file.picture) URL.revokeObjectURL(file.picture);
  lists.set(draft, listOf(draft).filter((file) => !gone.includes(file)));
  keep(draft);
  if (draft === here()) draw();
}

export function addFiles(files, { pasted = false, text } = {}) {
  const draft = here();
  if (draft === undefined) return;
  if (form().hasAttribute("data-editing")) { toast("Finish editing the message first.", "warn"); return; }
  for (const file of files) {
    const entry = { key: newId(), name: file.name || "file", size: file.size, kind: "", alt: "", state: "sending", file, pasted, text };
    const why = objection(file, listOf(draft));
    listOf(draft).push(entry);
    drawOne(entry);
    if (why) fail(draft, entry, why);
    else upload(draft, entry);
  }
  $("#composer-files").lastElementChild?.scrollIntoView({ block: "nearest" });
}
function objection(file, list) {
  const { maxFiles, maxBytes } = form().dataset;
  if (file.isFolder) return "a folder cannot be attached; attach its files";
  if (file.size > Number(maxBytes)) return `${sizeOf(file.size)}; a file has at most ${sizeOf(Number(maxBytes))}`;
  if (!file.size) return "the file is empty";
  if (list.filter(({ state }) => state !== "failed" && state !== "flying").length >= Number(maxFiles)) return `a message has at most ${maxFiles} files`;
  return "";
}

// — uploads —
function upload(draft, entry) {
  const xhr = new XMLHttpRequest();
  const name = entry.name.toWellFormed?.() ?? entry.name;
  Object.assign(entry, { state: "sending", progress: 0, why: "", xhr });
  keep(draft);
  xhr.open("POST", `${form().dataset.filesUrl}?name=${encodeURIComponent(name)}`);
  xhr.setRequestHeader("X-CSRFToken", cookie("protoagent_csrf"));
  xhr.setRequestHeader("Accept", "application/json");
  xhr.setRequestHeader("Content-Type", "application/octet-stream");
  xhr.responseType = "json";
  xhr.upload.onprogress = (event) => {
    entry.progress = (100 * event.loaded) / event.total;
    const bar = $(".file__bar", chipOf(entry) ?? document.createElement("i"));
    if (bar) bar.value = entry.progress;
  };
  xhr.onload = () => {
    if (xhr.status === 201) return arrived(draft, entry, xhr.response);
    if (xhr.status === 401) signIn();
    return fail(draft, entry, xhr.response?.detail ?? `the server answered ${xhr.status}`, xhr.status >= 500);
  };
  xhr.onerror = () => fail(draft, entry, "no connection to the server", true);
  xhr.send(entry.file);
}
function arrived(draft, entry, { id, name, size, kind }) {
  const picture = kind === "image" ? URL.createObjectURL(entry.file) : "";
  Object.assign(entry, { id, name, size, kind, picture, state: "ready", xhr: null });
  keep(draft);
  finished(draft, entry, `${name} attached`);
}
function fail(draft, entry, why, canRetry = false) {
  const isAboutName = why.startsWith(entry.name); // which keeps its small letters
  Object.assign(entry, { state: "failed", why: isAboutName ? `${why}.` : sentence(why), canRetry, xhr: null });
  keep(draft);
  finished(draft, entry, `${entry.name}: ${why}`);
}
function finished(draft, entry, words) {
  if (draft !== here()) return;
  drawOne(entry);
  say(words);
  settle();
}
function settle() {
  const waiting = settled;
  if (!waiting || isSending()) return;
  settled = null;
  waiting(listOf(here()).some(({ state }) => state === "failed"));
}

// — sending —
export const isSending = () => listOf(here()).some(({ state }) => state === "sending");
export const hasFiles = () => listOf(here()).some(({ state }) => state === "ready" || state === "sending");
export function whenSettled(then) { settled = then; }

// The files go along with a message; its draft knows them until the server has it.
export function take() {
  const draft = here();
  forget(draft, listOf(draft).filter(({ state }) => state === "failed"));
  const files = listOf(draft).filter(({ state }) => state === "ready");
  for (const file of files) file.state = "flying";
  draw();
  return { draft, files, ids: files.map(({ id }) => id).join(",") };
}
export async function describe({ files }) {
  await Promise.all(files.map(saveAlt));
}
export function sentOff({ draft, files }) { if (files.length) forget(draft, files); }
export function giveBack({ draft, files }) {
  for (const file of files) file.state = "ready";
  if (draft === here()) { draw(); check(draft); }
}

// — alt texts —
async function saveAlt(file) {
  while (file.altSaved !== undefined && file.altSaved !== file.alt) {
    const { alt } = file;
    await post(`${urlOf(file.id)}alt/`, { alt });
    file.altSaved = alt;
  }
}
function typeAlt(input, file) {
  file.altSaved ??= file.alt;
  file.alt = input.value;
  keep(here());
}

// — chips —
function draw() {
  const box = $("#composer-files");
  const shown = listOf(here()).filter(({ state }) => state !== "flying");
  for (const chip of $$("[data-file]", box)) if (!shown.some(({ key }) => key === chip.dataset.file)) chip.remove();
  for (const file of shown) drawOne(file);
}
function drawOne(file) {
  if (file.state === "flying" || !listOf(here()).includes(file)) return;
  let chip = chipOf(file);
  if (!chip) {
    chip = $("#file-chip").content.firstElementChild.cloneNode(true);
    chip.dataset.file = file.key;
    $("#composer-files").append(chip);
  }
  chip.dataset.state = file.state;
  $(".file__name", chip).textContent = file.name;
  $(".file__name", chip).title = file.name;
  $(".file__size", chip).textContent = sizeOf(file.size);
  const bar = $(".file__bar", chip);
  bar.hidden = file.state !== "sending";
  bar.value = file.progress ?? 0;
  bar.setAttribute("aria-label", `Uploading ${file.name}`);
  const isImage = file.state === "ready" && file.kind === "image";
  if (isImage) drawImage(chip, file);
  const note = $(".file__note", chip);
  note.textContent = file.state === "failed" ? file.why : isImage ? blindness(file) : "";
  note.hidden = !note.textContent;
  $('[data-act="file-text"]', chip).hidden = !(file.pasted && file.state !== "sending");
  $('[data-act="file-again"]', chip).hidden = !(file.state === "failed" && file.canRetry);
  $('[data-act="file-remove"]', chip).setAttribute("aria-label", `Remove ${file.name}`);
}
function drawImage(chip, file) {
  const alt = $(".file__alt", chip);
  if (!alt.hidden) return;
  const image = document.createElement("img");
  image.alt = "";
  image.width = image.height = 36;
  image.src = file.picture || urlOf(file.id);
  $(".file__pic", chip).replaceChildren(image);
  alt.hidden = false;
  alt.value = file.alt;
  alt.setAttribute("aria-label", `Alt text for ${file.name}`);
}
function blindness(file) {
  const { sees, maxImage } = form().dataset;
  if (sees !== "1") return "The model cannot see images; it gets the name and the alt text.";
  return file.size > Number(maxImage) ? `Too large for the model (${sizeOf(Number(maxImage))} at most); it gets the name and the alt text.` : "";
}

function remove(draft, file) {
  const chips = $$("#composer-files [data-file]");
  const at = chips.indexOf(chipOf(file));
  file.xhr?.abort();
  if (file.id) post(`${urlOf(file.id)}remove/`).catch(() => undefined); // else it goes after a day
  forget(draft, [file]);
  const next = (chips[at + 1] ?? chips[at - 1]) && $('[data-act="file-remove"]', chips[at + 1] ?? chips[at - 1]);
  (next ?? $("#composer-text")).focus();
  say(`${file.name} removed`);
  settle();
}
async function keepAsText(draft, file) {
  try {
    const text = file.text ?? (await (await fetch(urlOf(file.id), { credentials: "same-origin" })).text());
    remove(draft, file);
    const area = $("#composer-text");
    area.setRangeText(text, area.selectionStart, area.selectionEnd, "end");
    area.dispatchEvent(new Event("input", { bubbles: true }));
    area.focus();
  } catch {
    toast("No connection to the server.", "err");
  }
}

const fileOf = (element) => listOf(here()).find(({ key }) => key === element.closest("[data-file]")?.dataset.file);
document.addEventListener("click", (event) => {
  const act = event.target.closest('[data-act^="file-"]')?.dataset.act;
  const file = act && fileOf(event.target);
  if (!file) return;
  if (act === "file-remove") remove(here(), file);
  if (act === "file-text") keepAsText(here(), file);
  if (act === "file-again") { upload(here(), file); drawOne(file); }
});
document.addEventListener("input", (event) => { if (event.target.matches(".file__alt")) typeAlt(event.target, fileOf(event.target)); });
document.addEventListener("change", (event) => {
  if (event.target.matches(".file__alt")) saveAlt(fileOf(event.target)).catch((refusal) => toast(sentence(refusal.message), "err"));
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !event.target.matches(".file__alt") || event.isComposing) return;
  event.preventDefault(); // it is no way to send the message
  $("#composer-text").focus();
});

// — after a reload —
async function check(draft) {
  const known = listOf(draft).filter(({ state }) => state === "ready");
  if (!known.length) return;
  const ids = known.map(({ id }) => id).join(",");
  try {
    const response = await fetch(`${form().dataset.filesUrl}?ids=${ids}`, { credentials: "same-origin", headers: { Accept: "application/json" } });
    if (!response.ok) return;
    const found = new Set((await response.json()).files.map(({ id }) => id));
    const gone = listOf(draft).filter((file) => known.includes(file) && file.state === "ready" && !found.has(file.id));
    if (!gone.length) return;
    forget(draft, gone);
    toast(`Not there any more: ${gone.map(({ name }) => name).join(", ")}. Attach again what you need.`, "warn");
  } catch { /* without a connection the chips stay as they are */ }
}
function restore(draft) {
  let kept = [];
  try { kept = JSON.parse(store.get(storeKey(draft)) ?? "[]"); } catch { /* not ours */ }
  const broken = { state: "failed", why: "The upload was broken off; attach the file again." };
  lists.set(draft, kept.map((file) => ({ ...file, key: newId(), ...(file.id ? { state: "ready" } : broken) })));
}
function attach() {
  const box = $("#composer-files");
  if (!box || box.dataset.ready) return;
  box.dataset.ready = "1";
  settled = null;
  if (!lists.has(here())) restore(here());
  draw();
  check(here());
}
// Another tab has signed this browser out: what is attached goes with it.
channel?.addEventListener("message", (event) => {
  if (!event.data.signedOut) return;
  lists.clear();
  if (form()) draw();
});
document.addEventListener("htmx:load", attach);
attach();
