// intake.js — ways for files into the message: the button, pasting, dropping on the chat.
import { $, isTouch, say } from "./core.js";
import { addFiles } from "./files.js";

const LONG_PASTE = 4000;
let depth = 0; // of dragenter: its elements are entered and left one by one

document.addEventListener("click", (event) => {
  if (event.target.closest('[data-act="attach"]')) $("#composer-pick").click();
});
document.addEventListener("change", (event) => {
  if (event.target.id !== "composer-pick") return;
  addFiles([...event.target.files]);
  event.target.value = ""; // the same file can be picked again
  if (!isTouch.matches) $("#composer-text").focus();
});

document.addEventListener("paste", (event) => {
  if (event.target.id !== "composer-text") return;
  const { files, types } = event.clipboardData;
  const text = event.clipboardData.getData("text/plain");
  // Cells and paragraphs of office programs come with a picture of themselves.
  const isText = types.includes("text/plain") && types.includes("text/html");
  if (files.length && !isText) {
    event.preventDefault();
    addFiles([...files]);
  } else if (text.length > LONG_PASTE && !$("#composer").hasAttribute("data-editing")) {
    event.preventDefault();
    addFiles([new File([text], "pasted.txt", { type: "text/plain" })], { pasted: true, text });
    say("The long text is attached as pasted.txt. Keep as text puts it into the field.");
  }
});

const brings = (event) => event.dataTransfer?.types.includes("Files");
const column = () => $("#composer") && $("#chat");
function outline(isOn) {
  depth = isOn ? depth : 0;
  column()?.toggleAttribute("data-dropping", isOn);
}
document.addEventListener("dragenter", (event) => {
  if (!brings(event) || !column()?.contains(event.target)) return;
  depth += 1;
  outline(true);
});
document.addEventListener("dragleave", (event) => {
  if (!brings(event) || !column()?.contains(event.target)) return;
  depth -= 1;
  if (depth <= 0) outline(false);
});
// Anywhere: a file that misses the chat must not replace the page.
document.addEventListener("dragover", (event) => {
  if (!brings(event)) return;
  event.preventDefault();
  event.dataTransfer.dropEffect = column()?.contains(event.target) ? "copy" : "none";
});
document.addEventListener("drop", (event) => {
  if (!brings(event)) return;
  event.preventDefault();
  outline(false);
  if (!column()?.contains(event.target)) return;
  const items = [...event.dataTransfer.items].filter(({ kind }) => kind === "file");
  addFiles(items.map((item) => {
    const file = item.getAsFile();
    return item.webkitGetAsEntry?.()?.isDirectory ? { name: file?.name, size: 0, isFolder: true } : file;
  }).filter(Boolean));
});
