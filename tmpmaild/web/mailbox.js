// An inbox's messages, newest first. Does not draw, and makes no requests.

export class Mailbox {
  messages = [];
  #known = new Set();
  #seen;

  // `seen` has the ids of the messages that were opened.
  constructor(seen = []) {
    this.#seen = new Set(seen);
  }

  get seen() {
    return [...this.#seen];
  }

  get unread() {
    return this.messages.filter(({ id }) => !this.#seen.has(id)).length;
  }

  // Add messages in order of arrival; return those that were not known.
  add(messages) {
    const added = messages.filter(({ id }) => !this.#known.has(id) && this.#known.add(id));
    this.messages = [...added, ...this.messages].sort((one, other) => (one.id < other.id ? 1 : -1));
    return added;
  }

  // A message that was deleted stays known: it must not come back.
  remove(id) {
    this.messages = this.messages.filter((message) => message.id !== id);
    this.#known.add(id);
  }

  // Put back messages that were removed before the server was asked to.
  restore(messages) {
    for (const { id } of messages) this.#known.delete(id);
    this.add(messages);
  }

  see = (id) => this.#seen.add(id);
  isSeen = (id) => this.#seen.has(id);
  find = (id) => this.messages.find((message) => message.id === id);
}
