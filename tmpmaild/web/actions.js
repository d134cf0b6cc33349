// What the buttons do: create, extend, delete, choose a name, copy; and the words for what goes wrong.

import { announce, toast } from "./alerts.js";
import { ApiError } from "./api.js";
import { lifetimes } from "./card.js";
import { confirmLast, confirmRemoval, showLink } from "./dialogs.js";
import { copy, h, icon, save } from "./dom.js";
import { askForLabel } from "./labels.js";
import { chooseName } from "./namedialog.js";
import { whenAllowed } from "./paced.js";
import { keep } from "./store.js";
import { knows, t } from "./words.js";

// Return the text for an error of the API; any other error is a bug and goes on.
export function wordsOf(error) {
  if (!(error instanceof ApiError)) throw error;
  const key = `error-${error.code}`;
  return t(knows(key) ? key : "error-other", { code: error.code, n: Math.max(1, error.retryAfterSeconds) });
}

// Return a handler that does something once at a time and shows what went wrong.
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

const REQUESTS_OF_AN_INBOX = 2; // it is created and followed

// Each public field is a handler for a button.
export class Actions {
  #api;
  #inboxes;
  #domains;

  // `inboxes` is an Inboxes.
  constructor(api, inboxes) {
    this.#api = api;
    this.#inboxes = inboxes;
  }

  copyAddress = (event) => copyText(this.#inboxes.inbox.address, event);
  showLink = () => showLink(this.#inboxes.inbox, copyText);
  create = () => {
    const waitMs = this.#api.msUntilLeft(REQUESTS_OF_AN_INBOX + 1);
    const create = attempt(() => this.#create());
    if (waitMs > 0) confirmLast(Math.ceil(waitMs / 1000), create);
    else create();
  };

  chooseName = attempt(async () => {
    this.#domains ??= await this.#api.domains();
    chooseName(this.#domains, (wish) => this.#create(wish), wordsOf);
  });

  extend = attempt(async (seconds) => {
    const { inbox } = this.#inboxes;
    const { expires_at } = await this.#api.extend(inbox, seconds);
    this.#inboxes.did(inbox, { extended: expires_at });
    announce(t("extended"));
  });

  // Extend by one of the times that `lifetimes` offers now.
  extendBy = (label) => {
    const offer = lifetimes(this.#inboxes.inbox, this.#api.now()).find((one) => one.label === label);
    return offer && this.extend(offer.seconds);
  };

  saveMail = attempt(async () => {
    const { inbox } = this.#inboxes;
    const load = () => (toast(t("saving-mail")), this.#api.mbox(inbox));
    const onWait = (n) => toast(t("error-rate-limited", { n }));
    save(await whenAllowed(this.#api, load, { onWait }), `${inbox.address}.mbox`);
    toast(t("saved", { n: 1 }));
  });

  confirmRemoval = () => {
    const { inbox, mailbox } = this.#inboxes;
    confirmRemoval(inbox, mailbox.messages.length, attempt(() => this.#remove(inbox)));
  };

  forget = () => this.#inboxes.forget(this.#inboxes.inbox);

  rename = () => {
    const { inbox } = this.#inboxes;
    askForLabel(inbox.label, (label) => this.#inboxes.rename(inbox, label));
  };

  async #create(wish) {
    this.#inboxes.show(keep(await this.#api.create(wish)));
  }

  async #remove(inbox) {
    await this.#api.deleteAddress(inbox);
    this.#inboxes.did(inbox, { gone: "deleted" });
  }
}
