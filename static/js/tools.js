// tools.js — tool calls: bodies that are loaded when they are opened, cancelling, trying again.
import { $, $$, post, say, sentence } from "./core.js";
import { base, retry } from "./composer.js";
import { toast } from "./toasts.js";

function load(details) {
  const body = $(":scope > .tool__body", details);
  if (!body || body.firstElementChild || !details.open) return;
  body.innerHTML = '<span class="skeleton skeleton--w70"></span>';
  const url = `${$("#chat").dataset.base}calls/${encodeURIComponent(details.dataset.call)}/`;
  globalThis.htmx.ajax("GET", url, { target: body, swap: "innerHTML" }).then(() => {
    if (body.querySelector(":scope > .skeleton")) body.innerHTML = '<p class="muted">This could not be loaded. Close and open it to try again.</p>';
  });
}

document.addEventListener("toggle", (event) => {
  if (event.target.matches?.(".tool > details[data-call]")) {
    const body = $(":scope > .tool__body", event.target);
    if (!event.target.open && body && !$(".tool__loaded", body)) body.replaceChildren();
    load(event.target);
  }
}, true);
// A call that ends while it is open is loaded anew: its body came empty.
document.addEventListener("transcript.changed", () => {
  for (const details of $$('.tool > details[open]')) load(details);
});

async function cancel(button) {
  button.disabled = true;
  button.setAttribute("aria-label", "Cancelling…");
  try {
    const answer = await post(`${base()}calls/${encodeURIComponent(button.dataset.call)}/cancel/`);
    say(answer.cancelled ? "Cancelling. The agent is told." : "It had ended already");
    if (!answer.cancelled) toast("It had ended already", "warn");
  } catch (problem) {
    button.disabled = false;
    toast(sentence(problem.message), "err");
  }
}

document.addEventListener("click", (event) => {
  const button = event.target.closest('[data-act="cancel-call"], [data-act="retry"]');
  if (!button) return;
  if (button.dataset.act === "retry") { button.disabled = true; retry(button.dataset.turn); } else cancel(button);
});
