// The warning before an inbox expires. Offers to extend the inbox and to save its messages.

import { extensionOf, LAST_MS } from "./card.js";
import { button, h, icon, tool } from "./dom.js";
import { moment, t } from "./words.js";

// `actions` contains extend() and save(). Returns a function that must be called every second with the shown inbox, if
// any, and its message count.
export function endingBar(element, { extend, save }) {
  let drawn = "";
  let dismissed; // the expiry time for which the reader has dismissed the warning

  function contents({ expires_at }, n, label, end) {
    const dismiss = () => ((dismissed = end), (element.hidden = true));
    return [
      h("p", icon("warn"), h("span", t(n > 0 ? "ending-with-mail" : "ending", { time: moment(expires_at) }))),
      tool("close", t("dismiss"), { click: dismiss }),
      h("div.actions", label && button("time", label, { click: extend }), n > 0 && button("save", t("save-mail"), { click: save }))];
  }

  return (inbox, n, nowMs) => {
    const label = inbox && extensionOf(inbox, nowMs)?.label;
    const end = inbox && `${inbox.address} ${inbox.expires_at}`;
    const leftMs = Date.parse(inbox?.expires_at) - nowMs;
    const isDue = dismissed !== end && leftMs > 0 && leftMs < LAST_MS && (n > 0 || label);
    const wanted = isDue ? [end, n > 0, label].join(" ") : "";
    if (wanted === drawn) return;
    drawn = wanted;
    element.hidden = !isDue;
    element.replaceChildren(...(isDue ? contents(inbox, n, label, end) : []));
  };
}
