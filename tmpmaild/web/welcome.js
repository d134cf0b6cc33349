// The note on the first visit, which explains who can read the messages and how long they are kept. It disappears when
// a message arrives or the reader dismisses it, and is not shown again.

import { get, set } from "./browser.js";
import { at, h, icon, tool } from "./dom.js";
import { moment, t } from "./words.js";

const WELCOMED_KEY = "tmpmaild:welcomed";

// Show the facts about this inbox, unless the reader has already seen them.
export function welcome(inbox) {
  const element = at("welcome");
  element.hidden = !inbox.token || Boolean(inbox.foreign) || get(WELCOMED_KEY) === "yes";
  if (element.hidden) return;
  element.replaceChildren(icon("mail"),
    h("p", t(inbox.private ? "welcome-private" : "welcome-public"), " ", t("welcome-kept", { time: moment(inbox.expires_at) })),
    tool("close", t("dismiss"), { click: endWelcome }));
}

export function endWelcome() {
  set(WELCOMED_KEY, "yes");
  at("welcome").hidden = true;
}
