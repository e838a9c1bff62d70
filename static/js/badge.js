// badge.js — how much waits on the operator: bell, navigation, title, icon of the tab, icon of the app.
import { $, $$ } from "./core.js";

let count = Number($("[data-waiting-number]")?.textContent) || 0;

function draw() {
  for (const mark of $$("[data-waiting]")) mark.hidden = count === 0;
  for (const number of $$("[data-waiting-number]")) number.textContent = String(count);
  for (const bell of $$("[data-bell]")) bell.setAttribute("aria-label", `Waiting on you: ${count}`);
  const plain = document.title.replace(/^\(\d+\) /, "");
  const title = count ? `(${count}) ${plain}` : plain;
  if (document.title !== title) document.title = title;
  const icon = $("#favicon");
  const wanted = count ? icon.dataset.dot : icon.dataset.plain;
  if (icon.getAttribute("href") !== wanted) icon.setAttribute("href", wanted);
  if (count) navigator.setAppBadge?.(count).catch(() => {}); else navigator.clearAppBadge?.().catch(() => {});
}

document.addEventListener("attention.changed", (event) => {
  if (typeof event.detail?.count !== "number") return;
  count = event.detail.count;
  draw();
});
document.addEventListener("htmx:load", draw);
draw();
