// The application under test for the suites in this folder. It sends its mail with nodemailer, as many applications do.

import { createTransport } from "nodemailer";

const FROM = '"The Shop" <shop@shop.example>';
export const ARCHIVE = "archive@company.example";

// Return a shop that sends its messages to a server.
export function openShop({ host, port }) {
  const transport = createTransport({ host, port, ignoreTLS: true });
  const codes = new Map();
  return {
    async signUp(email) {
      codes.set(email, String(100_000 + codes.size));
      const url = `https://shop.example/confirm?t=${codes.get(email)}`;
      const text = `Your verification code is ${codes.get(email)}.\n`;
      const html = `<p>Your verification code is ${codes.get(email)}.</p><p><a href="${url}">Confirm your address</a></p>`;
      await transport.sendMail({ from: FROM, to: email, subject: "Confirm your address", text, html });
    },
    confirm: (email, code) => codes.get(email) === code,
    async order(email) {
      const attachments = [{ filename: "Invoice-7.pdf", content: "%PDF-1.7 seven", contentType: "application/pdf" }];
      const message = { from: FROM, to: email, cc: "bob@other.example", bcc: ARCHIVE, subject: "Your order 7", attachments };
      await transport.sendMail({ ...message, text: "Thank you for your order.\n", headers: { "X-Shop": "berlin" } });
    },
  };
}
