// The options page: reads the address of a tmpmaild, requests permission for that host only, and checks the service.

import { at } from "./dom.js";
import { baseOf, Fault, patternOf, Service } from "./service.js";
import { change } from "./state.js";
import { t, translate } from "./words.js";

translate();
// Permission can only be requested during a click, so there must be no `await` before the request. When the service is
// changed, the addresses on the previous service are discarded.
async function connect(typed) {
  const base = baseOf(typed);
  if (!base) throw new Fault("bad_service");
  const isAllowed = await chrome.permissions.request({ origins: [patternOf(base)] });
  if (!isAllowed) throw new Fault("permission_missing", [new URL(base).host]);
  await new Service(base).check();
  const { service: before } = await chrome.storage.local.get("service");
  await chrome.storage.local.set({ service: base });
  if (before && before !== base) await change(() => []);
  if (before && patternOf(before) !== patternOf(base)) await chrome.permissions.remove({ origins: [patternOf(before)] }).catch(() => {});
  await chrome.storage.session.remove(["notice", "trouble"]);
  return base;
}

function say(kind, text) {
  at("result").className = kind;
  at("result").textContent = text;
}

at("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  say("", "");
  try {
    const base = await connect(at("service").value);
    at("service").value = base;
    say("good", t("connected", new URL(base).host));
  } catch (fault) {
    say("warning", fault.key ? t(fault.key, ...fault.values) : t("error_other", fault.message));
  }
});

const { service } = await chrome.storage.local.get("service");
if (service) at("service").value ||= service;
at("service").focus();
