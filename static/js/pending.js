// pending.js — messages above the composer that are not delivered yet.
import { $, post, say, sentence } from "./core.js";
import { base, edit } from "./composer.js";
import { toast } from "./toasts.js";

const DONE = { withdraw: "Withdrawn", steer: "Handed to the running turn", "stop-and-send": "Stopped and sent", up: "Moved up", down: "Moved down", release: "Sent" };

async function act(fields, button) {
  button.disabled = true;
  try {
    await post(`${base()}pending/`, fields);
    say(DONE[fields.do]);
  } catch (problem) {
    button.disabled = false;
    toast(sentence(problem.message), "err");
  }
}

document.addEventListener("click", (event) => {
  const button = event.target.closest('[data-act^="pending"]');
  if (!button) return;
  const row = button.closest("[data-client]");
  if (button.dataset.act === "pending") act({ do: button.dataset.do, client_id: row.dataset.client }, button);
  if (button.dataset.act === "pending-edit") edit(row.dataset.client, $(".pending__text", row).textContent);
  if (button.dataset.act === "pending-release") act({ do: "release" }, button);
  if (button.dataset.act === "pending-keep") button.closest(".pending__hold").remove();
});
