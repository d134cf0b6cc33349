// An inbox's messages, newest first. Does not draw anything or send requests.

export class Mailbox {
  messages = [];
  #known = new Set();
  #seen;

  // `seen` contains the ids of the opened messages.
  constructor(seen = []) {
    this.#seen = new Set(seen);
  }

  get seen() {
    return [...this.#seen];
  }

  get unread() {
    return this.messages.filter(({ id }) => !this.#seen.has(id)).length;
  }

  // Add messages in order of arrival; return the messages that were not known before.
  add(messages) {
    const added = messages.filter(({ id }) => !this.#known.has(id) && this.#known.add(id));
    this.messages = [...added, ...this.messages].sort((one, other) => (one.id < other.id ? 1 : -1));
    return added;
  }

  // Deleted messages are remembered, so that they are not added again.
  remove(...ids) {
    const removed = new Set(ids);
    this.messages = this.messages.filter(({ id }) => !removed.has(id));
    for (const id of ids) this.#known.add(id);
  }

  // Remove messages temporarily; they may be added again later.
  forget(ids) {
    this.remove(...ids);
    for (const id of ids) this.#known.delete(id);
  }

  // Restore removed messages whose deletion was undone or failed.
  restore(messages) {
    for (const { id } of messages) this.#known.delete(id);
    this.add(messages);
  }

  see = (id) => this.#seen.add(id);
  isSeen = (id) => this.#seen.has(id);
  find = (id) => this.messages.find((message) => message.id === id);
}
