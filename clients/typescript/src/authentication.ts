// Checks the verified sender of a message, and explains failures.

import { NotAuthenticated, printable } from "./errors.js";
import type { Authentication } from "./openapi.js";

interface Verdict {
  result: string;
  domain?: string;
  selector?: string;
  policy?: string;
  reason?: string;
}

/** Check that a domain is the verified sender. Throws `NotAuthenticated`. */
export function ensureAuthenticated(found: Authentication | null, domain: string): void {
  if (found === null) {
    throw new NotAuthenticated(
      "the sender has not been checked yet: wait for the message with { verdict: true } (the service needs senders.resolver)",
    );
  }
  const { result, domain: proven } = found.dmarc;
  if (result === "pass" && proven === domain.toLowerCase()) return;
  throw new NotAuthenticated([`the message is not verified to be from ${domain}`, ...lines(found)].map((line) => printable(line, 1000)).join("\n"));
}

function lines({ dmarc, spf, dkim, dns = [] }: Authentication): string[] {
  const signed = dkim.length > 0 ? dkim.map(described) : ["no signature"];
  const answers = dns.map(({ name, type, answer }) => `DNS: ${name} ${type}: ${answer}`);
  return [`DMARC: ${described(dmarc)}`, `SPF: ${described(spf)}`, ...signed.map((one) => `DKIM: ${one}`), ...answers];
}

function described({ result, domain, selector, policy, reason }: Verdict): string {
  const named = Object.entries({ domain, selector, policy }).filter(([, value]) => value);
  return [result, ...named.map(([name, value]) => `${name}=${value ?? ""}`), ...(reason ? [`(${reason})`] : [])].join(" ");
}
