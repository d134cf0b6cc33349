// Creates elements. Text from messages and pages becomes text nodes, never markup.

export const at = (id) => document.getElementById(id);

// Create an element: `h("p.note", {title: "…", click: handler}, "text", …)`; falsy children are omitted.
export function h(name, ...children) {
  const [tag, ...classes] = name.split(".");
  const element = document.createElement(tag);
  element.classList.add(...classes);
  for (const child of children.flat(Infinity)) {
    if (child?.constructor === Object) Object.entries(child).forEach(([key, value]) => setProperty(element, key, value));
    else if (child) element.append(child);
  }
  return element;
}

function setProperty(element, key, value) {
  if (typeof value === "function") element.addEventListener(key, value);
  else if (value !== undefined && value !== false) element.setAttribute(key, value);
}

// Replace an element's content, and keep the focus on the child with the same `data-key`.
export function redraw(element, ...children) {
  const { key } = (element.contains(document.activeElement) && document.activeElement.dataset) || {};
  element.replaceChildren(...children.flat(Infinity).filter(Boolean));
  if (key) element.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus();
}
