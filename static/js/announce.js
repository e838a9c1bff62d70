// announce.js — what the agent does, in the status line: at most once in five seconds while it works.
import { alarm, say } from "./core.js";
import { serverNow } from "./clock.js";

const EVERY_MS = 5000;
const OLD_MS = 15_000; // what a page catches up on after a gap is no news
let saidAt = -Infinity;
let waiting = null;
let timer = 0;

export function announce(frame) {
  if (!frame.say || serverNow() - Date.parse(frame.at) > OLD_MS) return;
  for (const [level, text] of frame.say) {
    if (level === "alert") alarm(text);
    else if (level === "now") speak(text);
    else later(text);
  }
}

function speak(text) {
  clearTimeout(timer);
  timer = 0;
  waiting = null;
  saidAt = performance.now();
  say(text);
}

function later(text) {
  const wait = saidAt + EVERY_MS - performance.now();
  if (wait <= 0) return speak(text);
  waiting = text; // only the newest is worth saying
  timer ||= setTimeout(() => { timer = 0; if (waiting) speak(waiting); }, wait);
  return undefined;
}
