// effects.js — what a command or the palette makes the page do.
import { $, post, say, sentence } from "./core.js";
import { go } from "./boost.js";
import { setTheme } from "./theme.js";
import { openModels } from "./models.js";
import { toast } from "./toasts.js";

const EFFECTS = {
  goto: ({ url }) => go(url),
  download: ({ url }) => location.assign(url),
  dialog: ({ url }) => globalThis.htmx.ajax("GET", url, { target: "#dialogs", swap: "beforeend" }),
  theme: ({ value }) => setTheme(value || "next"),
  help: () => $("#keys").showModal(),
  model: () => openModels(),
  incognito: ({ on }) => {
    $("#composer").elements.incognito.value = on ? "1" : "";
    $("#incognito-badge").hidden = !on;
  },
  say: ({ model, label }) => {
    const form = $("#composer");
    if (label === undefined || !form) return;
    $("[data-model]", form).textContent = label;
    if (!$("#chat").dataset.base) form.elements.model.value = model;
  },
};

export function runEffect(answer) {
  EFFECTS[answer.effect]?.(answer);
  if (answer.say) toast(answer.say);
}

// A command from outside of the field: the palette.
export async function runCommand(name, url, id) {
  try {
    runEffect(await post(url, { text: `/${name}`, client_id: id }));
  } catch (problem) {
    say("");
    toast(sentence(problem.message), "err");
  }
}
