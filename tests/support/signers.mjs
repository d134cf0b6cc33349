// Composes and signs the messages on standard input with the nodemailer package of the working directory.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const { createTransport } = createRequire(`${process.cwd()}/`)("nodemailer");
const mails = JSON.parse(readFileSync(0, "utf8"));
const transport = createTransport({ streamTransport: true, buffer: true, newline: "windows" });
const sent = await Promise.all(mails.map((mail) => transport.sendMail(mail)));
console.log(JSON.stringify(sent.map((one) => one.message.toString("base64"))));
