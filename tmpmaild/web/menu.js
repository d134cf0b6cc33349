// A button that opens a menu. Esc and a click elsewhere close the menu; the arrow keys move within the menu.

import { button, h } from "./dom.js";
import { isFromRight } from "./words.js";

const GAP_PX = 4;
let opened; // the open menu and its button
addEventListener("resize", () => opened && place(...opened));

const itemsOf = (menu) => [...menu.querySelectorAll("[role=menuitem]")];

// Create a button with this class, and its menu. `items()` is called each time the menu opens; it returns
// `{ image, label, danger, act(event) }` for each item.
export function menuButton(image, text, label, kind, items) {
  const opener = button(image, text, { class: kind, "aria-label": label, title: label, "aria-haspopup": "menu", "aria-expanded": "false" });
  const menu = h("div.menu", { popover: "auto", role: "menu", "aria-label": label });
  opener.popoverTargetElement = menu;
  menu.addEventListener("beforetoggle", ({ newState }) => {
    if (newState === "open") menu.replaceChildren(...items().map((item) => drawItem(item, menu)));
  });
  menu.addEventListener("toggle", ({ newState }) => {
    opener.ariaExpanded = newState === "open";
    opened = newState === "open" ? [menu, opener] : undefined;
    if (!opened) return;
    place(menu, opener);
    itemsOf(menu)[0]?.focus();
  });
  menu.addEventListener("keydown", (event) => onKey(event, menu));
  return [opener, menu];
}

function drawItem({ image, label, danger, act }, menu) {
  const click = (event) => {
    menu.hidePopover();
    act(event);
  };
  return button(image, label, { role: "menuitem", tabindex: -1, class: danger && "bad", click });
}

// Place an open menu below its button, or above the button if there is no room below.
function place(menu, opener) {
  const { top, bottom, left, right } = opener.getBoundingClientRect();
  const { offsetWidth: width, offsetHeight: height } = menu;
  const below = bottom + GAP_PX;
  const wished = isFromRight ? left : right - width;
  menu.style.left = `${Math.max(GAP_PX, Math.min(wished, innerWidth - GAP_PX - width))}px`;
  menu.style.top = `${below + height > innerHeight ? Math.max(GAP_PX, top - GAP_PX - height) : below}px`;
}

function onKey(event, menu) {
  const items = itemsOf(menu);
  const at = items.indexOf(document.activeElement);
  const steps = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 };
  event.stopPropagation(); // Esc closes only the menu, not the message
  if (event.key === "Tab") menu.hidePopover();
  if (!(event.key in steps)) return;
  event.preventDefault();
  items.at(steps[event.key] % items.length).focus();
}
