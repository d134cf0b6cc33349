// The note of the first visit: who can read the mail, what is kept and for how long. It goes when mail comes or when
// it is dismissed, and does not come back.

import { get, set } from "./browser.js";
import { at, h, icon, tool } from "./dom.js";
import { moment, t } from "./words.js";

const WELCOMED_KEY = "tmpmaild:welcomed";

// Show what is true of this inbox, unless the reader knows it by now.
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
