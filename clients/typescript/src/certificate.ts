// The certificate for a test daemon, created with the `openssl` program because Node cannot create certificates.

import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { NotStarted } from "./errors.js";

// The names of this machine, including those that its containers use to reach it.
const NAMES = "DNS:localhost,IP:127.0.0.1,IP:::1,DNS:host.docker.internal,DNS:host.containers.internal";

/** The files of a self-signed certificate. */
export interface Certificate {
  certificate: string;
  key: string;
}

/** Create a certificate in a folder. Throws `NotStarted` if `openssl` is missing. */
export function issued(folder: string): Certificate {
  const made = { certificate: join(folder, "certificate.pem"), key: join(folder, "key.pem") };
  const subject = ["-subj", "/CN=localhost", "-addext", `subjectAltName=${NAMES}`, "-days", "2"];
  const files = ["-keyout", made.key, "-out", made.certificate];
  try {
    execFileSync("openssl", ["req", "-x509", "-newkey", "rsa:2048", "-nodes", ...subject, ...files], { stdio: "pipe" });
  } catch (error) {
    throw new NotStarted(`{ tls: true } needs the program openssl: ${error instanceof Error ? error.message : ""}`);
  }
  return made;
}
