// Tests the client with servers that refuse requests, cut connections, or are not tmpmaild. Each server is a list of
// responses in order.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test } from "node:test";
import { Http } from "../dist/esm/http.js";
import { ConnectionLost, NotTmpmaild, ServiceUnreachable, Tmpmaild } from "tmpmaild";

const ADDRESS = { address: "a@mail.example.com", expires_at: "2030-01-01T00:00:00.000Z", token: "secret-token" };
const message = (id) => ({ id, from: "", subject: id, received_at: "2026-01-01T00:00:00.000Z", codes: [], links: [], body: "" });
const json = (value, status = 200, headers = {}) => (request, response) =>
  response.writeHead(status, headers).end(JSON.stringify(value));
const problem = (status, code, headers) => json({ code, detail: `${code}.` }, status, headers);
const cut = (request, response) => response.destroy();
const events = (...parts) => (request, response) => {
  response.writeHead(200, { "Content-Type": "text/event-stream" });
  response.end(`retry: 1\n\n${parts.map(([name, data]) => `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`).join("")}`);
};

/** Serve the responses while `use` runs, and return the requests received. */
async function served(answers, use) {
  const requests = [];
  const server = createServer((request, response) => {
    requests.push(`${request.method} ${request.url} ${request.headers["last-event-id"] ?? ""}`.trim());
    const answer = request.url.endsWith("/addresses") ? json(ADDRESS, 201) : answers.shift();
    answer(request, response);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const service = new Tmpmaild(`http://127.0.0.1:${server.address().port}/mail/`);
  try {
    await use(await service.create(), service);
  } finally {
    server.closeAllConnections();
    server.close();
  }
  assert.ok(!requests.join().includes(ADDRESS.token));
  assert.deepEqual(answers, []);
  return requests;
}

test("a request that the rate limit refuses is repeated when the service says, with one warning", async (context) => {
  const warned = context.mock.method(process, "emitWarning", () => undefined);
  const refused = problem(429, "rate-limited", { "Retry-After": "1" });
  const now = problem(429, "rate-limited", { "Retry-After": "0" });
  await served([refused, now, json({ messages: [] }), problem(429, "rate-limited", { "Retry-After": "61" })], async (inbox) => {
    const began = performance.now();
    assert.deepEqual(await inbox.messages(), []);
    assert.ok(performance.now() - began > 950);
    await assert.rejects(inbox.messages(), { code: "rate-limited", retryAfterSeconds: 61 });
  });
  assert.equal(warned.mock.callCount(), 1);
  assert.match(warned.mock.calls[0].arguments[0], /limits\.exempt$/);
});

test("a wait for a pattern reads all of a mail that a list cuts, again while that is refused, unless it is gone", async () => {
  const shortened = json({ messages: [{ ...message("msg_1"), truncated: true }] });
  const whole = json({ ...message("msg_1"), body: "Ticket 4711", headers: [] });
  const answers = [shortened, problem(503, "busy", { "Retry-After": "0" }), shortened, whole];
  await served(answers, async (inbox) => assert.equal(await inbox.waitForCode({ pattern: /Ticket (\d+)/ }), "4711"));
  const others = [shortened, problem(404, "message-not-found"), json({ messages: [{ ...message("msg_2"), body: "Ticket 4712" }] })];
  await served(others, async (inbox) => assert.equal(await inbox.waitForCode({ pattern: /Ticket (\d+)/ }), "4712"));
});

test("a wait goes on after a cut, a stop, a page that does not match, and with fewer seconds", async () => {
  const answers = [
    json({ messages: [message("msg_1")] }),
    cut,
    problem(503, "stopping", { "Retry-After": "0" }),
    json({ messages: [message("msg_1"), message("msg_2")] }),
  ];
  const requests = await served(answers, async (inbox) => {
    assert.equal(await inbox.waitForCode({ pattern: /^msg_2/ }), "msg_2");
  });
  const waits = requests.slice(1).map((line) => new URL(line.split(" ")[1], "http://x").searchParams);
  assert.deepEqual(waits.map((one) => one.get("after")), [null, "msg_1", "msg_1", "msg_1"]);
  assert.deepEqual(waits.map((one) => one.get("wait")).slice(0, 2), ["50", "50"]);
  assert.ok(Number(waits[2].get("wait")) < 50);
});

test("a look without a wait goes on after empty pages", async () => {
  const empty = json({ messages: [] }, 200, { Link: '</elsewhere?has=code&after=msg_1>; rel="next"' });
  const requests = await served([empty, json({ messages: [message("msg_2")] })], async (inbox) => {
    assert.equal((await inbox.waitFor({ has: "code", timeoutMs: 0 })).id, "msg_2");
  });
  assert.match(requests[2], /after=msg_1/);
});

test("a wait says which request failed last, and nobody takes that for no mail", async () => {
  const stopping = problem(503, "stopping", { "Retry-After": "9" });
  await served([stopping, stopping], async (inbox) => {
    const error = await inbox.waitFor({ timeoutMs: 500 }).catch((one) => one);
    assert.match(error.message, /^no message arrived at .* within 0\.5 s; the last request failed: stopping \(503 stopping\)$/);
    await assert.rejects(inbox.assertNoMail({ withinMs: 500 }), { name: "WaitTimeout" });
  });
});

test("a stream is resumed without a gap and without a double", async () => {
  const answers = [
    events(["message", message("msg_1")], ["message", message("msg_2")]),
    cut,
    problem(429, "too-many-streams", { "Retry-After": "0" }),
    events(["message", message("msg_2")], ["message", message("msg_3")], ["later", {}], ["extended", { expires_at: "2031-01-01T00:00:00Z" }]),
    problem(410, "address-expired"),
  ];
  const requests = await served(answers, async (inbox) => {
    const told = [];
    for await (const event of inbox.follow({ after: "msg_0" })) told.push(event.mail?.id ?? event.type);
    assert.deepEqual(told, ["msg_1", "msg_2", "msg_3", "extended", "expired"]);
  });
  const path = `GET /mail/api/v1/addresses/${ADDRESS.address}/events?after=msg_0`;
  assert.deepEqual(requests.slice(1), [path, `${path} msg_2`, `${path} msg_2`, `${path} msg_2`, `${path} msg_3`]);
});

test("a list goes on after an empty page, and one that goes round in circles ends", async () => {
  const linked = (before, ...ids) =>
    json({ messages: ids.map(message) }, 200, { Link: `</elsewhere?has=code&before=${before}>; rel="next"` });
  await served([linked("msg_5"), linked("msg_2", "msg_2"), linked("msg_1"), json({ messages: [message("msg_0")] })], async (inbox) => {
    assert.deepEqual((await inbox.messages({ has: "code" })).map(({ id }) => id), ["msg_2", "msg_0"]);
  });
  for (const again of [linked("msg_2", "msg_2"), linked("msg_3"), json({ messages: [] }, 200, { Link: '</x?y>; rel="next"' })]) {
    await served([linked("msg_2", "msg_2"), again], (inbox) => assert.rejects(inbox.messages(), NotTmpmaild));
  }
});

const moved = json({}, 307, { Location: "https://elsewhere.example/mail/api/v1/addresses/a@mail.example.com/messages?limit=100" });
for (const [what, answer, kind, text] of [
  ["another server", (_, response) => response.end("<p>"), NotTmpmaild, /is not tmpmaild: it returned 200 without a type/],
  ["a redirect", moved, NotTmpmaild, /points to https:\/\/elsewhere\.example\/mail; use that URL$|points to https/],
  ["a proxy", (_, response) => response.writeHead(502).end("Bad Gateway"), ConnectionLost, /502 from a proxy/],
  ["a cut", cut, ConnectionLost, /the connection broke/],
  ["no HTTP", (request) => request.socket.end("SMTP?\r\n"), NotTmpmaild, /does not speak HTTP/],
  ["no messages", json({ messages: [{}] }), NotTmpmaild, /is the URL right/],
  ["unsafe text", problem(422, "bad\x1b[31m"), Error, /\(422 bad\ufffd\[31m\)$/],
]) {
  test(`${what} is told for what it is`, () =>
    served([answer], (inbox) =>
      assert.rejects(inbox.messages(), (error) => {
        assert.ok(error instanceof kind, error);
        assert.match(error.message, text);
        return true;
      })));
}

test("an answer has bounds, in octets and in time", async () => {
  await served([json("x".repeat(1000)), () => undefined], async (_, { url }) => {
    const http = new Http(url);
    await assert.rejects(http.request({ method: "GET", path: "x", maxBytes: 100 }), /sent more than 100 octets$/);
    await assert.rejects(http.request({ method: "GET", path: "x", readMs: 500 }), /no response within 0\.5 s$/);
  });
});

test("a service that is not there is unreachable, and an impossible URL is refused", async () => {
  await assert.rejects(new Tmpmaild("http://127.0.0.1:1").domains(), ServiceUnreachable);
  for (const url of ["nothing", "ftp://x", "http://user:password@x", "http://x/?q"]) {
    assert.throws(() => new Tmpmaild(url), (error) => error instanceof TypeError && !error.message.includes("password@"));
  }
});
