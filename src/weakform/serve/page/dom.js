// Elements in one line.

export function h(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key === "class") made.className = value;
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.flat().filter((c) => c !== null && c !== undefined));
  return made;
}
export const at = (id) => document.getElementById(id);
export function options(select, pairs, chosen) {
  select.replaceChildren(...pairs.map(([value, text]) => h("option", { value, selected: value === chosen }, text)));
  select.value = chosen;
}

// Write a part of the page anew; who stood in it by the keyboard stands there again.
const STOPS = "a[href], button, input, select, textarea, summary, [tabindex='0']";
export function anew(parts, write) {
  const stops = (part) => [...part.querySelectorAll(STOPS)];
  const held = parts.find((part) => part.contains(document.activeElement));
  const place = held ? stops(held).indexOf(document.activeElement) : -1;
  write();
  if (place >= 0) stops(held)[place]?.focus({ preventScroll: true });
}
