// slash.js — the menu of commands above the field. A name decides; descriptions only help to find one.
import { $, $$, say } from "./core.js";

const menu = () => $("#slash");
const options = () => $$('[role="option"]:not([hidden])', menu());
const chosen = () => $('[aria-selected="true"]', menu());
export const isOpen = () => Boolean(menu()) && !menu().hidden;

function select(option, area) {
  for (const other of $$('[aria-selected="true"]', menu())) other.setAttribute("aria-selected", "false");
  if (!option) return area.removeAttribute("aria-activedescendant");
  option.setAttribute("aria-selected", "true");
  area.setAttribute("aria-activedescendant", option.id);
  return option.scrollIntoView({ block: "nearest" });
}

export function closeMenu() {
  if (!isOpen()) return;
  menu().hidden = true;
  $("#composer-text")?.removeAttribute("aria-activedescendant");
}

export function refreshMenu(area) {
  const list = menu();
  if (!list) return;
  const typed = /^\/([a-z0-9_-]*)$/i.exec(area.value);
  if (!typed) return closeMenu();
  const wanted = typed[1].toLowerCase();
  const rank = (option) => {
    const { name } = option.dataset;
    if (name.startsWith(wanted)) return 0;
    if (name.includes(wanted)) return 1;
    return wanted.length > 1 && option.textContent.toLowerCase().includes(wanted) ? 2 : 3;
  };
  const all = $$('[role="option"]', list);
  for (const option of all) option.hidden = rank(option) === 3;
  $(".composer__rest", list)?.remove();
  const byName = all.filter((option) => rank(option) < 2);
  const byText = all.filter((option) => rank(option) === 2);
  list.append(...byName.filter((option) => rank(option) === 0), ...byName.filter((option) => rank(option) === 1));
  if (byText.length) {
    const line = document.createElement("div");
    line.className = "composer__rest";
    line.setAttribute("role", "presentation");
    line.textContent = "Also about this";
    list.append(line, ...byText);
  }
  const wasOpen = !list.hidden;
  list.hidden = !byName.length && !byText.length;
  select(byName.find((option) => !option.hidden) ?? null, area); // one that only mentions it is never preselected
  if (!wasOpen && !list.hidden) say(`${options().length} commands. Arrow keys choose, Tab inserts.`);
  return undefined;
}

function pick(option, area) {
  area.value = option.dataset.insert;
  area.dispatchEvent(new Event("input", { bubbles: true }));
  closeMenu();
  area.focus();
}

// Whether the menu has taken the key.
export function menuKey(event) {
  if (!isOpen()) return false;
  const area = event.target;
  const here = options();
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    const step = event.key === "ArrowDown" ? 1 : -1;
    const at = here.indexOf(chosen());
    select(here[(at + step + here.length + (at < 0 && step < 0 ? 1 : 0)) % here.length], area);
    return true;
  }
  if (event.key === "Escape") { event.preventDefault(); closeMenu(); return true; }
  const isPlainEnter = event.key === "Enter" && !event.shiftKey && !event.ctrlKey && !event.altKey;
  if (event.key !== "Tab" && !isPlainEnter) return false;
  const option = chosen();
  if (!option) return false;
  if (isPlainEnter && area.value === option.dataset.insert.trim()) return false; // typed in full: send it
  event.preventDefault();
  pick(option, area);
  return true;
}

document.addEventListener("pointerdown", (event) => {
  const option = event.target.closest?.('#slash [role="option"]');
  if (option) { event.preventDefault(); pick(option, $("#composer-text")); }
});
document.addEventListener("focusout", (event) => {
  if (event.target.id === "composer-text") setTimeout(() => { if (document.activeElement?.id !== "composer-text") closeMenu(); }, 150);
});
document.addEventListener("click", (event) => {
  if (!event.target.closest('[data-act="slash"]')) return;
  const area = $("#composer-text");
  area.focus();
  if (!area.value) area.value = "/";
  area.dispatchEvent(new Event("input", { bubbles: true }));
});
