// The dialog for an address of one's own choice; what the API refuses is said at the field that it is about.

import { openDialog } from "./dialogs.js";
import { button, h } from "./dom.js";
import { lasting, t } from "./words.js";

const LIFETIMES_SECONDS = [600, 3600, 86_400];
// What the API says of a name, in English, and the key of the same in the reader's language.
const KNOWN_DETAILS = [[/^this name is reserved/, "name-reserved"], [/^3 to 64 of/, "name-form"]];

// Ask for a name. `offer` is what the API says about domains. `create` is called with the wish and may reject with an
// ApiError, which `words` turns into text.
export function chooseName(offer, create, words) {
  const local = h("input", { autofocus: true, minlength: 3, maxlength: 64, autocomplete: "off",
    autocapitalize: "none", spellcheck: "false", "aria-describedby": "name-hint" });
  const domain = h("select", { "aria-label": t("domain") }, offer.domains.filter((name) => !name.startsWith("*.")).map((name) => h("option", name)));
  const life = choicesOf(offer);
  const secret = h("input", { type: "checkbox", checked: true });
  const errors = fieldErrors({ "/local_part": local, "/domain": domain, "/expires_in_seconds": life }, words);
  const submit = (event) => {
    event.preventDefault();
    errors.clear();
    const name = local.value.trim();
    const wish = { ...(name && { local_part: name }), domain: domain.value, private: secret.checked };
    if (life.length > 1) wish.expires_in_seconds = Number(life.value);
    return create(wish).catch(errors.show);
  };
  openDialog(t("name-title"),
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

// Return the errors of the fields, by the pointers that the API has for them; those of no field are at "".
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

// Return the errors of an answer, each with the pointer of its field and a detail in the reader's language.
function placed(error, words) {
  if (error.code === "address-taken") return [{ pointer: "/local_part", detail: words(error) }];
  if (!error.errors?.length) return [{ pointer: "", detail: words(error) }];
  return error.errors.map(({ pointer, detail }) => {
    const [, key] = KNOWN_DETAILS.find(([known]) => known.test(detail)) ?? [];
    return { pointer, detail: key ? t(key) : detail };
  });
}
