// The button that appears when new messages are outside the visible part of the list, and scrolls to them.

import { h, icon } from "./dom.js";
import { t } from "./words.js";

// `go(id)` scrolls to a message in the list. Returns the functions add(rows), remove(...ids) for messages that were
// read or deleted, and clear().
export function arrivals(button, go) {
  const rows = new Map(); // by id: the rows that have not been visible since their messages arrived
  const watch = new IntersectionObserver((changes) => {
    for (const { target, isIntersecting } of changes) if (isIntersecting) forget(target.dataset.id);
    draw();
  });

  function draw() {
    const n = rows.size;
    button.hidden = n === 0;
    if (n === 0) return;
    const isBelow = [...rows.values()].every((row) => row.getBoundingClientRect().top > 0);
    button.replaceChildren(h("span", t("new-mails", { n })), icon(isBelow ? "down" : "up"));
  }

  function forget(id) {
    if (rows.has(id)) watch.unobserve(rows.get(id));
    rows.delete(id);
  }

  button.onclick = () => go([...rows.keys()].sort().at(-1));
  return {
    add: (added) => added.forEach((row) => (rows.set(row.dataset.id, row), watch.observe(row))),
    remove: (...ids) => (ids.forEach(forget), draw()),
    clear: () => ([...rows.keys()].forEach(forget), draw()),
  };
}
