// timezone.js: tells the server the browser's time zone. Usage: <input type="hidden" name="timezone" data-timezone>
export function attach(root = document) {
  for (const field of root.querySelectorAll("[data-timezone]")) {
    field.value = Intl.DateTimeFormat().resolvedOptions().timeZone ?? "";
  }
}
attach();
