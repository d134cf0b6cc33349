// The dialog for choosing an address; each API error is shown next to the field that it refers to.

import { attempt } from "./attempts.js";
import { openDialog } from "./dialogs.js";
import { button, h } from "./dom.js";
import { lasting, t } from "./words.js";

const LIFETIMES_SECONDS = [600, 3600, 86_400];
// Patterns for the API's English error texts about names, each with the key of its translation.
const KNOWN_DETAILS = [[/^this name is reserved/, "name-reserved"], [/^expected 3 to 64 characters/, "name-form"]];

// Open the dialog. `offer` is the API's response about domains. `create` is called with the chosen values and may
// reject with an ApiError, which `words` turns into text.
export function chooseName(offer, create, words) {
  const local = h("input", { autofocus: true, minlength: 3, maxlength: 64, autocomplete: "off",
    autocapitalize: "none", spellcheck: "false", "aria-describedby": "name-hint" });
  const domain = h("select", { "aria-label": t("domain") }, offer.domains.filter((name) => !name.startsWith("*.")).map((name) => h("option", name)));
  const life = choicesOf(offer);
  const secret = h("input", { type: "checkbox", checked: true });
  const errors = fieldErrors({ "/local_part": local, "/domain": domain, "/expires_in_seconds": life }, words);
  // A second press of Enter must not create a second address.
  const send = attempt(async () => {
    errors.clear();
    const name = local.value.trim();
    const wish = { ...(name && { local_part: name }), domain: domain.value, private: secret.checked };
    if (life.length > 1) wish.expires_in_seconds = Number(life.value);
    await create(wish).then(() => close(), errors.show);
  });
  const submit = (event) => (event.preventDefault(), send(event));
  const close = openDialog(t("name-title"),
    h("form", { submit },
      h("label", t("name"), h("span.joined", { dir: "ltr" }, local, h("span.soft", "@"), domain)),
      errors.at("/local_part"), errors.at("/domain"),
      h("p.soft.small", { id: "name-hint" }, t("name-hint")),
      life.length > 1 && [h("label", t("lifetime"), life), errors.at("/expires_in_seconds")],
      h("label.check", secret, h("b", t("private")), h("small", t("private-hint"))),
      errors.at(""),
      button("plus", t("create"), { class: "main", type: "submit" })));
}

function choicesOf({ lifetime_seconds, max_lifetime_seconds }) {
  const offered = LIFETIMES_SECONDS.filter((seconds) => seconds <= max_lifetime_seconds);
  const all = [...new Set([...offered, lifetime_seconds])].sort((one, other) => one - other);
  const draw = (value) => h("option", { value, selected: value === lifetime_seconds }, lasting(value));
  return h("select", all.map(draw));
}

// Return an object that displays errors next to their fields, which are identified by their pointers in the API; "" is
// for errors without a field.
function fieldErrors(controls, words) {
  const draw = (pointer) => h("p.warning.small", { id: `error${pointer.replace("/", "-")}`, role: "alert" });
  const texts = Object.fromEntries(["", ...Object.keys(controls)].map((pointer) => [pointer, draw(pointer)]));
  for (const [pointer, control] of Object.entries(controls)) control.setAttribute("aria-errormessage", texts[pointer].id);

  function say(pointer, text) {
    texts[pointer].textContent = text;
    if (controls[pointer]) controls[pointer].ariaInvalid = String(text !== "");
  }

  return {
    at: (pointer) => texts[pointer],
    clear: () => Object.keys(texts).forEach((pointer) => say(pointer, "")),
    show(error) {
      for (const { pointer, detail } of placed(error, words)) say(pointer in texts ? pointer : "", detail);
      Object.values(controls).find((control) => control.ariaInvalid === "true")?.focus();
    },
  };
}

// Return the errors in a response, each with its field's pointer and a text in the reader's language.
function placed(error, words) {
  if (error.code === "address-taken") return [{ pointer: "/local_part", detail: words(error) }];
  if (!error.errors?.length) return [{ pointer: "", detail: words(error) }];
  return error.errors.map(({ pointer, detail }) => {
    const [, key] = KNOWN_DETAILS.find(([known]) => known.test(detail)) ?? [];
    return { pointer, detail: key ? t(key) : detail };
  });
}
