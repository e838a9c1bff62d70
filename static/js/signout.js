// signout.js — signing out of this browser takes what it kept along: drafts and their files, in every tab.
import { channel, store } from "./core.js";

document.addEventListener("submit", (event) => {
  const path = new URL(event.target.action, location.href).pathname;
  if (path !== "/logout/" && path !== "/account/sessions/end/") return;
  for (const key of [...store.keys("draft:"), ...store.keys("draft-files:")]) store.set(key, null);
  channel?.postMessage({ signedOut: true });
});
