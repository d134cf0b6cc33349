// The note of the first visit: who can read the mail, what is kept and for how long. It goes when mail comes or when
// it is dismissed, and does not come back.

import { get, set } from "./browser.js";
import { at, button, h, icon } from "./dom.js";
import { moment, t } from "./words.js";

const WELCOMED_KEY = "tmpmaild:welcomed";

// Show what is true of this inbox, unless the reader knows it by now.
export function welcome(inbox) {
  const element = at("welcome");
  element.hidden = !inbox.token || Boolean(inbox.foreign) || get("localStorage", WELCOMED_KEY) === "yes";
  if (element.hidden) return;
  const dismiss = button("close", "", { class: "quiet", "aria-label": t("dismiss"), title: t("dismiss"), click: endWelcome });
  element.replaceChildren(icon("mail"),
    h("p", h("span", t(inbox.private ? "welcome-private" : "welcome-public")), " ",
      h("span", t("welcome-kept", { time: moment(inbox.expires_at) }))),
    dismiss);
}

export function endWelcome() {
  set("localStorage", WELCOMED_KEY, "yes");
  at("welcome").hidden = true;
}
