// The button that appears when new messages are out of sight in the list, and scrolls to them.

import { h, icon } from "./dom.js";
import { t } from "./words.js";

// `go(id)` scrolls to a message in the list. Returns add(rows), remove(id) for a message that was read or deleted, and clear().
export function arrivals(button, go) {
  const rows = new Map(); // by id: rows that have not been in sight since their mail came
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
    remove: (id) => (forget(id), draw()),
    clear: () => ([...rows.keys()].forEach(forget), draw()),
  };
}
