// A stand-in for the page: stores the messages and records events in order.
export const APP = async ([inboxes, timings]) => {
  const [web] = /web\/\w+\//.exec(await (await fetch("/")).text());
  const { Api } = await import(`/${web}api.js`);
  const { Live } = await import(`/${web}live.js`);
  const messages = [];
  const app = (window.app = { inboxes: new Map(), messages, told: [], about: {}, states: [], twice: [] });
  const note = (name) => (value, address) => app.told.push([name, value, ...(inboxes.length > 1 ? [address] : [])]);
  app.add = (inbox) => app.inboxes.set(inbox.address, inbox.messages ? inbox : { ...inbox, messages: [] });
  const arrive = (message, address) => {
    const { messages } = app.inboxes.get(address);
    if (messages.some(({ id }) => id === message.id)) return app.twice.push(message.subject);
    messages.unshift(message);
    app.messages.unshift(message);
  };
  inboxes.forEach(app.add);
  app.live = new Live({
    api: new Api(new URL("/api/v1/", location)),
    name: "live",
    inboxes: () => [...app.inboxes.values()],
    timings,
    on: {
      messages: (list, address) => list.forEach((message) => arrive(message, address)),
      about: (about, address) => (app.about[address] = about),
      deleted: note("deleted"),
      extended: (value, address) => value && note("extended")(value, address),
      gone: (reason, address) => { app.inboxes.delete(address); note("gone")(reason, address); },
      state: (state) => app.states.push(state),
    },
  });
  app.live.start();
};

export const PARSE_EVERY_CUT = ({ EventStreamParser }, octets) => {
  const parse = (...pieces) => {
    const parser = new EventStreamParser();
    const events = pieces.flatMap((piece) => parser.feed(new Uint8Array(piece)));
    return JSON.stringify(events.map(({ event, data }) => [event, data]));
  };
  const cuts = octets.map((_, at) => parse(octets.slice(0, at), octets.slice(at)));
  return [...new Set([parse(octets), parse(...octets.map((one) => [one])), ...cuts])].map((one) => JSON.parse(one));
};
