// The line at the top that shows the state of the connection, and the button that checks for messages. The button's
// texts explain that messages arrive automatically, and that a check uses a request.

import { button, h } from "./dom.js";
import { t } from "./words.js";

const LOOK_MS = 1000;

// `actions` contains order(what), as in live.js; msUntilAllowed(), which returns the time until the rate limit allows a
// check; and say(text). Returns the functions show(state), which takes a state from live.js, and tick(), which must be
// called every second.
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
    // While the connection works, showing the state of a check would only make the line flicker.
    if (isNext && wasLive) return (drawing = setTimeout(() => ((state = next), draw()), LOOK_MS));
    state = next;
    draw();
  }

  return { show, tick };
}
