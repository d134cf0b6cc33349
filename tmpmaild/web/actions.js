// Button actions: create, extend, delete, choose a name, copy.

import { announce, toast } from "./alerts.js";
import { later } from "./api.js";
import { attempt, copyText, wordsOf } from "./attempts.js";
import { canShare, share } from "./browser.js";
import { extensionOf } from "./card.js";
import { hasDialog } from "./dialogs.js";
import { countdown, save } from "./dom.js";
import { whenAllowed } from "./paced.js";
import { keep, linkTo } from "./store.js";
import { t } from "./words.js";

// Each public field is a button's handler, named after the key of the button's label.
export class Actions {
  #api;
  #inboxes;
  #removals;
  #domains;

  // Takes an Api, an Inboxes and a Removals object.
  constructor(api, inboxes, removals) {
    [this.#api, this.#inboxes, this.#removals] = [api, inboxes, removals];
  }

  copy = (event) => copyText(this.#inboxes.inbox.address, event);

  qr = attempt(async () => {
    const { inbox } = this.#inboxes;
    const link = linkTo(inbox);
    if (canShare()) return share(link);
    const { showLink } = await later("linkdialog");
    if (this.#isStill(inbox)) showLink(link, inbox, copyText);
  });

  new = attempt(() => this.#create());

  "choose-name" = attempt(async () => {
    this.#domains ??= await this.#api.domains();
    const { chooseName } = await later("namedialog");
    if (!hasDialog()) chooseName(this.#domains, (wish) => this.#create(wish), wordsOf);
  });

  extend = attempt(async () => {
    const { inbox } = this.#inboxes;
    const { expires_at } = await this.#api.extend(inbox, extensionOf(inbox, this.#api.now()).seconds);
    this.#inboxes.did(inbox, { extended: expires_at });
    announce(t("extended"));
  });

  saveMail = attempt(async () => {
    const { inbox, mailbox } = this.#inboxes;
    const load = () => (toast(t("saving-mail")), this.#api.mbox(inbox));
    const onWait = (n) => toast(t("error-rate-limited", { n }));
    save(await whenAllowed(this.#api, load, { onWait }), `${inbox.address}.mbox`);
    toast(t("saved-mail", { n: mailbox.messages.length }));
  });

  // Show a new address and delete the current address, unless the reader undoes the deletion.
  change = attempt(async () => {
    const { inbox } = this.#inboxes;
    await this.#create();
    if (this.#inboxes.has(inbox)) this.remove(inbox);
  });

  // Delete an inbox, unless the reader undoes the deletion.
  remove = (inbox) => {
    this.#inboxes.takeAway(inbox);
    this.#removals.add(inbox);
  };

  forget = () => this.#inboxes.forget(this.#inboxes.inbox);
  delete = () => this.remove(this.#inboxes.inbox);

  rename = attempt(async () => {
    const { inbox } = this.#inboxes;
    const { askForLabel } = await later("labeldialog");
    if (this.#isStill(inbox)) askForLabel(inbox.label, (label) => this.#inboxes.rename(inbox, label));
  });

  // Whether a dialog about an inbox may still be opened after its module was loaded.
  #isStill({ address }) {
    return this.#inboxes.inbox?.address === address && !hasDialog();
  }

  // Reserve one request for following the new inbox.
  async #create(wish) {
    const onWait = (seconds) => toast("", countdown(seconds, (n) => t("new-later", { n })));
    this.#inboxes.show(keep(await whenAllowed(this.#api, () => this.#api.create(wish), { spare: 1, onWait })));
  }
}
