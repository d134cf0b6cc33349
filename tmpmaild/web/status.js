// The line at the top that says how the connection to the service is, and the button that looks for mail now. Mail comes by
// itself; the button shows that it does, and what a look costs.

import { button, h } from "./dom.js";
import { t } from "./words.js";

const LOOK_MS = 1000;

// `actions` has order(what), as live.js has it, msUntilAllowed(), how long the rate limit forbids a look, and say(text). Returns
// show(state), which takes a state of live.js, and tick(), to be called each second.
export function connectionStatus(line, refresh, { order, msUntilAllowed, say }) {
  let state = {};
  let isLooking = false;
  let drawing;

  function tick() {
    const seconds = Math.ceil((state.retryAtMs - Date.now()) / 1000);
    line.querySelector(".wait").textContent = seconds > 0 ? t("in-seconds", { n: seconds }) : "";
  }

  function draw() {
    const { name = "" } = state;
    line.className = `small ${name}`;
    line.replaceChildren(name && h("span.dot", t(`state-${name}`)), h("span.wait", { "aria-hidden": true }),
      name === "lost" ? button("", t("try-now"), { class: "quiet", click: () => order("retry") }) : "");
    tick();
  }

  function setLooking(value) {
    isLooking = value;
    refresh.ariaBusy = String(value);
  }

  refresh.onclick = () => {
    const ms = msUntilAllowed();
    if (isLooking) return;
    if (ms > 0) return say(t("refresh-later", { n: Math.ceil(ms / 1000) }));
    setLooking(true);
    order("look");
  };

  function show(next) {
    clearTimeout(drawing);
    const wasLive = state.name === "live";
    const isNext = next.name === "connecting";
    if (isLooking && !isNext) {
      setLooking(false);
      if (next.name === "live") say(t("refreshed"));
    }
    // A look at what is well already would only make the line blink.
    if (isNext && wasLive) return (drawing = setTimeout(() => ((state = next), draw()), LOOK_MS));
    state = next;
    draw();
  }

  return { show, tick };
}
