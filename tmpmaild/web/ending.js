// The warning before an inbox expires. Offers to extend it and to save its messages.

import { extensionOf, LAST_MS } from "./card.js";
import { button, h, icon, tool } from "./dom.js";
import { moment, t } from "./words.js";

// `actions` has extend() and save(). Returns what is to be called each second with the inbox that is shown, if any, and how
// many messages it has.
export function endingBar(element, { extend, save }) {
  let drawn = "";
  let dismissed; // the end that the reader knows of

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
