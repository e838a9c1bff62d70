// clock.js — one timer for every elapsed time. Usage: <time data-since="2026-03-18T13:02:10Z">
let offset = Number(document.documentElement.dataset.now) - Date.now() || 0;

export function setServerTime(now) { offset = now - Date.now(); }
export const serverNow = () => Date.now() + offset;

export function elapsed(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 3600) return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
  const hours = Math.floor(seconds / 3600);
  if (hours < 48) return `${hours} h ${String(Math.floor((seconds % 3600) / 60)).padStart(2, "0")}`;
  return `${Math.floor(hours / 24)} days`;
}

export function tick(within = document) {
  for (const element of within.querySelectorAll("time[data-since]")) {
    const text = elapsed(serverNow() - Date.parse(element.dataset.since));
    if (element.textContent !== text) element.textContent = text;
  }
}

setInterval(tick, 1000);
document.addEventListener("htmx:load", () => tick());
tick();
