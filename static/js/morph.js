// morph.js — changing an element into its newer form without closing, emptying or blurring what is in use.
import { $$ } from "./core.js";

const idiomorph = () => globalThis.Idiomorph;

// What the person has opened stays open, what has been loaded stays loaded.
const callbacks = {
  beforeNodeMorphed(old, fresh) {
    if (old.nodeType !== Node.ELEMENT_NODE || fresh.nodeType !== Node.ELEMENT_NODE) return true;
    if (old.matches("time[data-since]") && old.dataset.since === fresh.dataset.since) return false;
    if (old.matches(".tool__body") && old.firstElementChild && old.dataset.state === fresh.dataset.state) return false;
    // An open card may hold more than the server has heard of; only its end changes it.
    if (old.matches('.hitl[data-state="open"]') && fresh.matches('.hitl[data-state="open"]')) return false;
    return true;
  },
};

// A run of calls is bare and open while its turn works. Folding it must not hide what is being read.
function openRuns(within) {
  const runs = within.matches(".work") ? [within, ...$$(".work", within)] : $$(".work", within);
  return new Map(runs.map((run) => [run.id, run.hasAttribute("data-bare") ? run.querySelector(".tool > details[open]") !== null : run.open]));
}
const openCalls = (within) => new Map($$(".tool > details[data-call]", within).map((call) => [call.dataset.call, call.open]));

export function morph(old, html) {
  const runs = openRuns(old);
  const calls = openCalls(old);
  const id = old.id;
  const focused = old.contains(document.activeElement) ? document.activeElement : null;
  const [now] = idiomorph().morph(old, html, { morphStyle: "outerHTML", ignoreActiveValue: true, callbacks });
  const element = (id && document.getElementById(id)) || now;
  if (!element?.isConnected) return null;
  for (const run of [element, ...$$(".work", element)]) {
    if (run.matches(".work:not([data-bare])") && runs.has(run.id)) run.open = runs.get(run.id);
  }
  for (const call of $$(".tool > details[data-call]", element)) if (calls.has(call.dataset.call)) call.open = calls.get(call.dataset.call);
  if (focused && !focused.isConnected) refocus(element);
  return element;
}

// What had the focus is gone: its neighbourhood has it, not the top of the page.
function refocus(element) {
  const place = element.querySelector("[data-hitl-heading], summary, [tabindex]") ?? element.closest("[tabindex]");
  place?.focus({ preventScroll: true });
}
