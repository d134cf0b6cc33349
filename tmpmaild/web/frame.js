// A message's HTML in its frame, with the note about remote images. Loaded when a message with HTML is first opened.

import { later } from "./api.js";
import { isDark, withMode } from "./dark.js";
import { h } from "./dom.js";
import { fit, whenCome } from "./fit.js";
import { bar } from "./pane.js";
import { t } from "./words.js";

// No scripts. Because the frame has the same origin, this page can measure and print its content.
const SANDBOX = "allow-same-origin allow-modals allow-popups allow-popups-to-escape-sandbox";

// Create the frame for a view. `doubt()` is called if the view does not load; `fitting` is passed to fit.js.
export function frameOf(url, subject, fitting, doubt) {
  const about = { sandbox: SANDBOX, referrerpolicy: "no-referrer", title: t("mail-as-html"), src: withMode(url), "data-url": url };
  const frame = h("iframe", about, { class: isDark() && "dark" });
  const begin = () => (foldIn(frame.contentDocument, subject), fitting.begin(fit(frame, fitting)));
  whenCome(frame, () => hasCome(frame), begin, doubt);
  return frame;
}

// Few messages are replies, so the module that folds quotes is loaded when it is first needed. If it cannot be loaded,
// quotes are shown unfolded.
function foldIn(page, subject) {
  if (/^\s*\S{1,8}\s*[:：]/.test(subject)) later("quotes").then(({ foldQuotes }) => foldQuotes(page, subject), () => {});
}

// Every view contains an element with the id "light".
const hasCome = ({ contentDocument }) => Boolean(contentDocument?.getElementById("light"));

// Return the note about blocked images with a button that calls `load()`; returns false if there are none.
export const blockedNote = (n, load) => n > 0 && bar("image", t("blocked", { n }), t("load-images"), load);
