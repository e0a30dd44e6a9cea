// Building and updating parts of the document.

// Create an element: `on…` attributes are listeners; true sets an attribute, false, null and undefined leave it out.
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "class") element.className = value;
    else if (value === true) element.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children.flat().filter((c) => c !== null && c !== undefined));
  return element;
}
export const byId = (id) => document.getElementById(id);

// Fill a select with pairs of a value and a text.
export function setOptions(select, pairs, chosen) {
  select.replaceChildren(...pairs.map(([value, text]) => h("option", { value, selected: value === chosen }, text)));
  select.value = chosen;
}

// Run `write`, which replaces the content of some parts of the page, and put the keyboard focus back to where it was.
const FOCUSABLE = "a[href], button, input, select, textarea, summary, [tabindex='0']";
export function keepFocus(parts, write) {
  const focusable = (part) => [...part.querySelectorAll(FOCUSABLE)];
  const focused = parts.find((part) => part.contains(document.activeElement));
  const index = focused ? focusable(focused).indexOf(document.activeElement) : -1;
  write();
  if (index >= 0) focusable(focused)[index]?.focus({ preventScroll: true });
}
