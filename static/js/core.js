// core.js — what every behaviour needs: finding, telling, posting, remembering.
export const root = document.documentElement;
export const $ = (selector, within = document) => within.querySelector(selector);
export const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];
export const canWrite = () => root.dataset.canWrite === "1";
export const isTouch = matchMedia("(pointer: coarse)");

export const store = {
  get(key) { try { return localStorage.getItem(key); } catch { return null; } },
  set(key, value) {
    try {
      if (value === null || value === "") localStorage.removeItem(key);
      else localStorage.setItem(key, value);
    } catch { /* private mode: nothing is kept */ }
  },
  keys(prefix) { try { return Object.keys(localStorage).filter((key) => key.startsWith(prefix)); } catch { return []; } },
};

export function cookie(name) {
  return document.cookie.split("; ").find((part) => part.startsWith(`${name}=`))?.slice(name.length + 1) ?? "";
}

export function newId() {
  if (crypto.randomUUID) return crypto.randomUUID(); // missing outside of secure contexts
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

// The status line. Clearing it first makes the same text be read again.
export function say(text) {
  const line = $("#announce");
  line.textContent = "";
  requestAnimationFrame(() => { line.textContent = text; });
}
export function alarm(text) {
  const line = $("#alert");
  line.textContent = "";
  requestAnimationFrame(() => { line.textContent = text; });
}

export function isTyping(element) {
  if (!element) return false;
  return element.isContentEditable || (/^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName) && !/^(checkbox|radio|button|submit)$/.test(element.type ?? ""));
}

export class Refused extends Error {
  constructor(status, detail) { super(detail); this.status = status; }
}

// Post fields; the JSON of the answer. Throws Refused with the server's sentence, or its own for no connection.
export async function post(url, fields = {}, options = {}) {
  let response;
  try {
    response = await fetch(url, {
      method: "POST", body: new URLSearchParams(fields), credentials: "same-origin",
      headers: { Accept: "application/json", "X-CSRFToken": cookie("protoagent_csrf") }, ...options,
    });
  } catch {
    throw new Refused(0, "no connection to the server");
  }
  if (response.status === 401) {
    signIn();
    throw new Refused(401, "signed out; sign in and send it again");
  }
  if (response.ok) return response.status === 204 ? {} : response.json();
  const answer = await response.json().catch(() => ({}));
  throw new Refused(response.status, answer.detail ?? `the server answered ${response.status}`);
}

let isLeaving = false;
addEventListener("pageshow", () => { isLeaving = false; });

// Once: a second navigation would abort the first.
export function signIn() {
  if (isLeaving) return;
  isLeaving = true;
  location.assign(`/login/?next=${encodeURIComponent(location.pathname + location.search)}`);
}

// "no connection" → "No connection."
export function sentence(text) {
  const trimmed = text.trim();
  return trimmed.charAt(0).toUpperCase() + trimmed.slice(1) + (/[.!?…]$/.test(trimmed) ? "" : ".");
}

export const channel = "BroadcastChannel" in globalThis ? new BroadcastChannel("console") : null;
