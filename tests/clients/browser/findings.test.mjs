// The displayed parts of a message, and the limits applied to a hostile message.

import assert from "node:assert/strict";
import { test } from "node:test";

import { hostOf, isSameSite, mailOf, plain, shownHost, withMessage } from "../../../clients/browser/findings.js";

const message = (about) => ({ id: "msg_1", from: "a@shop.example", from_name: "", subject: "Hi", codes: [], links: [], ...about });
const link = (href, confidence = 0.9) => ({ href, text: "", confidence });

const HOSTS = [
  ["https://shop.example/a", "shop.example"],
  ["http://shop.example:8080/a", "shop.example:8080"],
  ["https://shop.example@evil.example/", "evil.example"],
  ["https://ѕhop.example/", "xn--hop-ehd.example"],
  ["https://shop.example\\@evil.example/", "shop.example"],
  ["HTTPS://EVIL.example", "evil.example"],
  ["https://0x7f.1/", "127.0.0.1"],
  ["javascript:alert(1)//https://shop.example", ""],
  ["JaVaScRiPt:alert(1)", ""],
  ["\u0001javascript:alert(1)", ""],
  ["data:text/html,<script>alert(1)</script>", ""],
  ["chrome-extension://abc/popup.html", ""],
  ["file:///etc/passwd", ""],
  ["//shop.example/", ""],
  ["nothing", ""],
];
for (const [href, host] of HOSTS) {
  test(`the host of ${JSON.stringify(href)} is what the browser would ask`, () => assert.equal(hostOf(href), host));
}

test("a long host is shown by its end, which says whose it is", () => {
  assert.equal(shownHost("shop.example"), "shop.example");
  const shown = shownHost(`shop.example.${"a".repeat(60)}.evil.example`);
  assert.ok(shown.endsWith(".evil.example") && shown.startsWith("…") && shown.length === 41);
});

const SITES = [
  ["shop.example", "shop.example", true],
  ["www.shop.example", "shop.example", true],
  ["links.shop.example", "www.shop.example", true],
  ["SHOP.example.", "shop.example:8080", true],
  ["evilshop.example", "shop.example", false],
  ["shop.example.evil.example", "shop.example", false],
  ["one.pages.example", "two.pages.example", false],
  ["xn--hop-ehd.example", "shop.example", false],
  ["", "shop.example", false],
  ["", "", false],
];
for (const [one, other, same] of SITES) {
  test(`${one || "nothing"} and ${other || "nothing"} are ${same ? "" : "not "}the same site`, () => {
    assert.equal(isSameSite(one, other), same);
    assert.equal(isSameSite(other, one), same);
  });
}

test("what hides or reverses text is not shown", () => {
  assert.equal(plain("a\u202eb\u200bc\u0000d"), "a b c d");
  assert.equal(plain(`a${"\u0301".repeat(50)}`).length, 5);
});

test("of a mail the best code is kept, and the first link that is likely and leads into the web", () => {
  const links = [link("https://a.example/", 0.1), link("javascript:alert(1)"), link("https://b.example/"), link("https://c.example/")];
  const mail = mailOf(message({ from_name: "Shop", codes: [{ value: "481516" }, { value: "99" }], links }));
  assert.deepEqual(mail, { id: "msg_1", from: "Shop", subject: "Hi", code: "481516", href: "https://b.example/" });
});

test("a link is kept as the browser would write it", () => {
  const { href } = mailOf(message({ links: [link("HTTPS://A.example/\u202egnp.exe")] }));
  assert.equal(href, "https://a.example/%E2%80%AEgnp.exe");
});

test("a code that is none is not kept, nor a link without end", () => {
  for (const value of ["<img src=x>", "a b", "x".repeat(33), "a\nb", "-", ""]) {
    assert.equal("code" in mailOf(message({ codes: [{ value }] })), false, value);
  }
  assert.equal("href" in mailOf(message({ links: [link(`https://a.example/${"x".repeat(5000)}`)] })), false);
});

test("a mail without code and link does not take the place of one with them, and is counted", () => {
  const first = withMessage({ address: "a" }, message({ codes: [{ value: "481516" }] }));
  const second = withMessage(first, message({ id: "msg_2", subject: "News" }));
  assert.deepEqual([second.mail.id, second.after, second.unread], ["msg_1", "msg_2", 2]);
  const third = withMessage(second, message({ id: "msg_3", links: [link("https://a.example/")] }));
  assert.deepEqual([third.mail.id, third.unread], ["msg_3", 3]);
});
