// theme.js — system, light or dark. The server writes data-theme from its cookie, so no page flashes.
import { $, channel, post, root, say } from "./core.js";
import { icon } from "./toasts.js";

const NEXT = { system: "light", light: "dark", dark: "system" };
const ICONS = { system: "monitor", light: "sun", dark: "moon" };
const current = () => root.dataset.theme || "system";

function show(theme) {
  if (theme === "system") delete root.dataset.theme; else root.dataset.theme = theme;
  const button = $('[data-act="theme"]');
  if (!button) return;
  button.setAttribute("aria-label", `Theme: ${theme}. Switch theme`);
  $("use", button).setAttribute("href", $("use", icon(ICONS[theme])).getAttribute("href"));
}

export function setTheme(wanted) {
  const theme = wanted === "next" ? NEXT[current()] : wanted;
  show(theme);
  say(`Theme: ${theme}`);
  channel?.postMessage({ theme });
  post("/me/theme/", { theme }).catch(() => { /* this page has it; the next one asks again */ });
}

channel?.addEventListener("message", (event) => { if (event.data.theme) show(event.data.theme); });
document.addEventListener("submit", (event) => {
  if (!event.target.matches("[data-theme-form]")) return;
  event.preventDefault();
  setTheme("next");
});
