// A shop that sends a code by mail: the application under test. A real application would use nodemailer or a similar
// library.

import { randomInt } from "node:crypto";
import { createServer } from "node:http";
import { connect } from "node:net";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const SIGN_UP = `<form method=post action=sign-up>
<label>E-mail <input name=email></label> <button>Sign up</button></form>`;
const CONFIRM = `<form method=post action=confirm><input type=hidden name=email value="ADDRESS">
<label>Code <input name=code></label> <button>Confirm</button></form>`;

async function sendMail({ host, port }, address, text) {
  const socket = connect(port, host);
  const replies = createInterface({ input: socket })[Symbol.asyncIterator]();
  const mail = `From: shop@shop.example\r\nTo: ${address}\r\nSubject: Confirm your address\r\n\r\n${text}\r\n.\r\n`;
  for (const said of ["", "HELO shop.example\r\n", "MAIL FROM:<shop@shop.example>\r\n", `RCPT TO:<${address}>\r\n`, "DATA\r\n", mail]) {
    socket.write(said);
    const { value } = await replies.next();
    if (!/^[23]/.test(value)) throw new Error(value);
  }
  socket.end("QUIT\r\n");
}

/** Serve the shop, which sends its messages to a server; return its URL and a function that stops it. */
export async function startShop(smtp, port = 0) {
  const codes = new Map();
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const piece of request) body += piece;
    const form = new URLSearchParams(body);
    const email = form.get("email");
    if (request.url === "/sign-up") {
      codes.set(email, String(randomInt(100_000, 1_000_000)));
      await sendMail(smtp, email, `Your verification code is ${codes.get(email)}.`);
      response.setHeader("Content-Type", "text/html").end(CONFIRM.replace("ADDRESS", email));
    } else if (request.url === "/confirm") {
      response.end(codes.get(email) === form.get("code") ? "You are in.\n" : "Wrong code.\n");
    } else {
      response.setHeader("Content-Type", "text/html").end(SIGN_UP);
    }
  });
  await new Promise((resolve) => server.listen(port, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${server.address().port}`, close: () => server.close() };
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const { SMTP_HOST, SMTP_PORT, PORT } = process.env;
  await startShop({ host: SMTP_HOST, port: Number(SMTP_PORT) }, Number(PORT));
}
