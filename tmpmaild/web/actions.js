// Button actions: create, extend, delete, choose a name, copy. Also turns API errors into text.

import { announce, toast } from "./alerts.js";
import { ApiError, later } from "./api.js";
import { canShare, share } from "./browser.js";
import { extensionOf } from "./card.js";
import { copy, countdown, h, icon, save } from "./dom.js";
import { whenAllowed } from "./paced.js";
import { keep, linkTo } from "./store.js";
import { knows, t } from "./words.js";

// Return the text for an API error; any other error is a bug and is rethrown.
export function wordsOf(error) {
  if (!(error instanceof ApiError)) throw error;
  const key = `error-${error.code}`;
  return t(knows(key) ? key : "error-other", { code: error.code, n: Math.max(1, error.retryAfterSeconds) });
}

// Return a handler that ignores calls while it is running, and that shows API errors.
export function attempt(task) {
  let busy = false;
  return async (...given) => {
    if (busy) return;
    busy = true;
    await task(...given).catch((error) => toast(wordsOf(error))).finally(() => (busy = false));
  };
}

export async function copyText(text, { currentTarget: pressed }) {
  if (!(await copy(text))) return toast(t("copy-failed"));
  announce(t("copied"));
  const before = (pressed.label ??= [...pressed.childNodes]);
  pressed.replaceChildren(icon("done"), before.length > 1 ? h("span", t("copied")) : "");
  setTimeout(() => pressed.replaceChildren(...before), 1500);
}

// Each public field is a button's handler, named after the key of the button's label.
export class Actions {
  #api;
  #inboxes;
  #removals;
  #domains;

  // An Api, Inboxes and Removals.
  constructor(api, inboxes, removals) {
    [this.#api, this.#inboxes, this.#removals] = [api, inboxes, removals];
  }

  copy = (event) => copyText(this.#inboxes.inbox.address, event);

  qr = attempt(async () => {
    const { inbox } = this.#inboxes;
    const link = linkTo(inbox);
    if (canShare()) return share(link);
    const { showLink } = await later(import("./linkdialog.js"));
    showLink(link, inbox, copyText);
  });

  new = attempt(() => this.#create());

  "choose-name" = attempt(async () => {
    this.#domains ??= await this.#api.domains();
    const { chooseName } = await later(import("./namedialog.js"));
    chooseName(this.#domains, (wish) => this.#create(wish), wordsOf);
  });

  extend = attempt(async () => {
    const { inbox } = this.#inboxes;
    const { expires_at } = await this.#api.extend(inbox, extensionOf(inbox, this.#api.now()).seconds);
    this.#inboxes.did(inbox, { extended: expires_at });
    announce(t("extended"));
  });

  saveMail = attempt(async () => {
    const { inbox } = this.#inboxes;
    const load = () => (toast(t("saving-mail")), this.#api.mbox(inbox));
    const onWait = (n) => toast(t("error-rate-limited", { n }));
    save(await whenAllowed(this.#api, load, { onWait }), `${inbox.address}.mbox`);
    toast(t("saved-mail", { n: this.#inboxes.mailbox.messages.length }));
  });

  // Show a new address and delete the current one, unless the reader undoes that.
  change = attempt(async () => {
    const { inbox } = this.#inboxes;
    await this.#create();
    this.remove(inbox);
  });

  // Delete an inbox, unless the reader undoes that.
  remove = (inbox) => {
    this.#inboxes.takeAway(inbox);
    this.#removals.add(inbox);
  };

  forget = () => this.#inboxes.forget(this.#inboxes.inbox);
  delete = () => this.remove(this.#inboxes.inbox);

  rename = attempt(async () => {
    const { inbox } = this.#inboxes;
    const { askForLabel } = await later(import("./labeldialog.js"));
    askForLabel(inbox.label, (label) => this.#inboxes.rename(inbox, label));
  });

  // Leave one request for following the new inbox.
  async #create(wish) {
    const onWait = (seconds) => toast("", countdown(seconds, (n) => t("new-later", { n })));
    this.#inboxes.show(keep(await whenAllowed(this.#api, () => this.#api.create(wish), { spare: 1, onWait })));
  }
}
