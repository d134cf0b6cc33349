export const BROKEN_WORDS = all => all.map((one) => {
  const range = document.createRange();
  range.selectNodeContents(one);
  const lines = new Set([...range.getClientRects()].map(({ top }) => Math.round(top / 8)));
  return [one.textContent, lines.size];
}).filter(([, lines]) => lines > 1);

export const SYSTEM_COLOURS = () => {
  const probe = document.body.appendChild(document.createElement("p"));
  const colour = (name) => { probe.style.color = name; return getComputedStyle(probe).color; };
  const of = (selector, property, pseudo) => getComputedStyle(document.querySelector(selector), pseudo)[property];
  const found = {
    dot: of("#list .unread .dot", "backgroundColor", "::before") === colour("Highlight"),
    life: of(".life div", "backgroundColor") === colour("Highlight"),
    row: of("#list > li:has([aria-current])", "outlineStyle") === "solid",
    inbox: of(".inbox:has([aria-current=true])", "outlineStyle") === "solid",
    tab: of(".modes [aria-pressed=true]", "borderBottomColor") === colour("Highlight"),
    "other tab": of(".modes [aria-pressed=false]", "borderBottomColor") === colour("Canvas"),
  };
  probe.remove();
  return Object.keys(found).filter((name) => !found[name]);
};
