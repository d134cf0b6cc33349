// Tests starting and stopping a daemon, and mistakes in its options. tests/clients covers a node process that is
// killed.

import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { connect as connectTls } from "node:tls";
import { NotStarted, ServiceUnreachable, Tmpmaild, startForRun, startTmpmaild } from "tmpmaild";
import { smtpServer } from "../dist/esm/daemon.js";

/** Run with a separate folder for temporary files, which must be empty at the end. */
async function inFolder(use) {
  const before = process.env.TMPDIR;
  const folder = (process.env.TMPDIR = mkdtempSync(join(tmpdir(), "ts-")));
  try {
    await use(folder);
    assert.deepEqual(readdirSync(folder), []);
  } finally {
    if (before === undefined) delete process.env.TMPDIR;
    else process.env.TMPDIR = before;
    rmSync(folder, { recursive: true });
  }
}

test("a daemon has the settings that are given, and is gone with its folder when it is closed", () =>
  inFolder(async (folder) => {
    const service = await startTmpmaild({ settings: { domains: "shop.example,other.example", "addresses.lifetime_seconds": 60 } });
    const [own] = readdirSync(folder);
    assert.ok(existsSync(join(folder, own, "tmpmaild.db")));
    const tmpmail = new Tmpmaild(service.url);
    assert.deepEqual(await tmpmail.domains(), ["shop.example", "other.example"]);
    assert.ok((await tmpmail.create()).expiresAt < Date.now() + 120_000);
    await service.close();
    await assert.rejects(tmpmail.domains(), ServiceUnreachable);
  }));

test("a daemon with TLS is trusted by its file alone, and STARTTLS is offered", () =>
  inFolder(async () => {
    const { smtp, smtps, caFile, close } = await startTmpmaild({ tls: true });
    const greeted = (options) =>
      new Promise((resolve, reject) => {
        const socket = connectTls({ host: smtps.host, port: smtps.port, servername: "localhost", ...options });
        socket.on("error", reject).once("data", (greeting) => socket.end("QUIT\r\n", () => resolve(`${greeting}`)));
      });
    assert.match(await greeted({ ca: readFileSync(caFile) }), /^220 /);
    await assert.rejects(greeted({}), { code: "DEPTH_ZERO_SELF_SIGNED_CERT" });
    const plain = connect(smtp.port, smtp.host);
    plain.write("EHLO shop.example\r\nQUIT\r\n");
    assert.match((await plain.toArray()).join(""), /250-STARTTLS\r\n/);
    await close();
  }));

test("a daemon that dies in the middle is told with what it said", (context, done) => {
  const running = setInterval(() => undefined, 1000); // a running daemon does not keep this process alive
  context.mock.method(process, "emitWarning", (text) => {
    clearInterval(running);
    assert.match(text, /^the tmpmaild of the tests has ended: exit code 3; it said:\ngood bye\n/);
    done();
  });
  const places = '{"http": "http://127.0.0.1:1", "smtp": "127.0.0.1:2", "smtps": null}';
  const program = `echo '${places}'; sleep 0.1; echo good bye >&2; exit 3`;
  startTmpmaild({ command: ["/bin/sh", "-c", program] }).then(({ smtp }) => assert.equal(smtp.port, 2), done);
});

test("what cannot be started says why, and leaves nothing", () =>
  inFolder(async () => {
    for (const [options, text] of [
      [{ command: "no-such-tmpmaild" }, /^"no-such-tmpmaild" is not in PATH: pip install tmpmaild-VERSION-py3-none-any\.whl of its release, or a checkout/],
      [{ command: "/no/such/tmpmaild" }, /did not start: .*ENOENT/],
      [{ command: ["/bin/sh", "-c", "echo Hello; exec sleep 60"] }, /did not start: it printed "Hello\\n"/],
      [{ settings: { "smtp.listen": "nowhere" } }, /did not start: exit code 78; it said:\n.*TMPMAILD_SMTP__LISTEN/s],
    ]) {
      await assert.rejects(startTmpmaild(options), (error) => {
        assert.ok(error instanceof NotStarted);
        assert.match(error.message, text);
        return true;
      });
    }
  }));

test("a program that a package of npm brings is not looked at", (context) => {
  const path = process.env.PATH;
  context.after(() => (process.env.PATH = path));
  process.env.PATH = new URL("../node_modules/.bin", import.meta.url).pathname;
  return assert.rejects(startTmpmaild({ command: "tsc" }), /"tsc" is not in PATH/);
});

test("a service that the environment names is used as it is", async (context) => {
  Object.assign(process.env, { TMPMAILD_URL: "http://[::1]:1", TMPMAILD_SMTP: "mail.example:2525" });
  context.after(() => ["TMPMAILD_URL", "TMPMAILD_SMTP"].forEach((name) => delete process.env[name]));
  const service = await startForRun();
  assert.deepEqual([service.url, service.smtp], ["http://[::1]:1", { host: "mail.example", port: 2525 }]);
});

test("a mail server is a host, with a port or the usual one", () => {
  assert.deepEqual(smtpServer("[::1]"), { host: "::1", port: 1025 });
  assert.deepEqual(smtpServer("mail.example"), { host: "mail.example", port: 25 });
  for (const wrong of ["", "a:b", "a:0", "a:65536", "a b", "user@host"]) assert.throws(() => smtpServer(wrong), TypeError);
});
