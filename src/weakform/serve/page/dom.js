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
