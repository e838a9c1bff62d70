// models.js — choosing the model of a session.
import { $, post, sentence } from "./core.js";
import { toast } from "./toasts.js";

const menu = () => $("#models");
const button = () => $("#model-button");
const key = () => $("#stream")?.dataset.session ?? "";

export function openModels() {
  const list = menu();
  if (!list) return;
  list.hidden = false;
  button().setAttribute("aria-expanded", "true");
  list.innerHTML = '<span class="skeleton skeleton--w70"></span>';
  const chosen = $("#composer").elements.model.value;
  const url = `/models/?${new URLSearchParams(key() ? { session: key() } : { model: chosen })}`;
  globalThis.htmx.ajax("GET", url, { target: list, swap: "innerHTML" }).then(() => {
    ($('[aria-pressed="true"]', list) ?? $("button", list))?.focus();
  });
}

function close(refocus = false) {
  if (!menu() || menu().hidden) return;
  menu().hidden = true;
  button().setAttribute("aria-expanded", "false");
  if (refocus) button().focus();
}

async function choose(name) {
  close(true);
  if (!key()) {
    $("#composer").elements.model.value = name === "default" ? "" : name;
    $("[data-model]").textContent = name === "default" ? $("#models small")?.previousElementSibling.textContent ?? name : name;
    return;
  }
  try {
    const answer = await post(`${$("#chat").dataset.base}model/`, { model: name });
    $("[data-model]").textContent = answer.label;
    toast(answer.say);
  } catch (problem) {
    toast(sentence(problem.message), "err");
  }
}

document.addEventListener("click", (event) => {
  const target = event.target;
  if (target.closest('[data-act="models"]')) return menu().hidden ? openModels() : close(true);
  const option = target.closest("[data-choose-model]");
  if (option) return choose(option.dataset.chooseModel);
  if (!target.closest("#models")) close();
  return undefined;
});
document.addEventListener("keydown", (event) => {
  if (!menu() || menu().hidden) return;
  if (event.key === "Escape") { event.preventDefault(); event.stopPropagation(); close(true); }
  if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
  const items = [...menu().querySelectorAll("button")];
  const at = items.indexOf(document.activeElement);
  event.preventDefault();
  items[(at + (event.key === "ArrowDown" ? 1 : -1) + items.length) % items.length]?.focus();
}, true);
