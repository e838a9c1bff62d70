// main.js — every behaviour of the console. Each one hangs on the document and may be loaded once.
import { $, cookie } from "./core.js";
import "./clock.js";
import "./toasts.js";
import "./connection.js";
import "./follow.js";
import { attach } from "./transcript.js";
import "./status.js";
import "./composer.js";
import "./files.js";
import "./intake.js";
import "./pending.js";
import "./models.js";
import "./tools.js";
import "./copy.js";
import "./theme.js";
import "./boost.js";
import "./shell.js";
import "./palette.js";
import "./keys.js";
import "./badge.js";
import "./hitl.js";
import "./sessions.js";

// Every unsafe request of htmx carries the token, also after the session was renewed elsewhere.
document.addEventListener("htmx:configRequest", (event) => {
  if (event.detail.verb !== "get") event.detail.headers["X-CSRFToken"] = cookie("protoagent_csrf");
});
document.addEventListener("session.gone", () => {
  const field = $("#composer-text");
  if (field) field.placeholder = "This session has been deleted";
});
attach();
