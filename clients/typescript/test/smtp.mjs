// Sends a message over SMTP, like an application under test.

import { connect } from "node:net";
import { createInterface } from "node:readline";

/** Send a message to one or more recipients, given its header fields and body. */
export async function send({ host, port }, recipients, { fields = {}, body = "" } = {}) {
  const to = [recipients].flat();
  const socket = connect(port, host);
  const replies = createInterface({ input: socket })[Symbol.asyncIterator]();
  const all = { From: "The Shop <shop@shop.example>", To: to[0], Subject: "Welcome", ...fields };
  const header = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`).join("");
  const data = `${header}\r\n${body.replaceAll("\n", "\r\n")}\r\n.\r\n`;
  const envelope = ["MAIL FROM:<shop@shop.example>\r\n", ...to.map((one) => `RCPT TO:<${one}>\r\n`)];
  for (const said of ["", "HELO shop.example\r\n", ...envelope, "DATA\r\n", data]) {
    socket.write(said);
    const { value } = await replies.next();
    if (!/^[23]/.test(value)) throw new Error(`${value} to ${said}`);
  }
  socket.end("QUIT\r\n");
}

export const CODE = { body: "Your verification code is 481516.\nOr follow https://shop.example/confirm?t=8kq2\n" };

/** A message with an attachment, HTML, and a List-Unsubscribe field. */
export const RECEIPT = {
  fields: {
    Subject: "Your receipt",
    "List-Unsubscribe": "<mailto:out@shop.example>, <https://shop.example/out?u=1>",
    "Content-Type": 'multipart/mixed; boundary="b"',
  },
  body: [
    '--b\nContent-Type: text/html\n\n<p>Thank you. <a href="https://shop.example/orders/7">Your order</a></p>',
    '--b\nContent-Type: application/pdf\nContent-Disposition: attachment; filename="Invoice-7.pdf"\n\n%PDF',
    "--b--\n",
  ].join("\n"),
};
