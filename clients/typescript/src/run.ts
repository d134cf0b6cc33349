// The service of a whole run of tests: the one that the environment names, else a daemon that all processes share.

import { type Service, type StartOptions, smtpServer, startTmpmaild } from "./daemon.js";
import { serviceUrl } from "./http.js";

// In both builds of this package, for `import` and for `require`, it is the same daemon.
const KEY = Symbol.for("tmpmaild.run");
const shared = globalThis as { [KEY]?: Promise<Service> | undefined };

/**
 * Return the service at `$TMPMAILD_URL`, with `$TMPMAILD_SMTP` for mail (`HOST:PORT`); without it start a daemon, once,
 * and set both variables, so that processes that are started from now on share it. Throws `NotStarted`.
 */
export async function startForRun(options: StartOptions = {}): Promise<Service> {
  return (shared[KEY] ??= process.env["TMPMAILD_URL"] ? Promise.resolve(given()) : started(options));
}

function given(): Service {
  const url = serviceUrl();
  const smtp = smtpServer(process.env["TMPMAILD_SMTP"] || new URL(url).hostname);
  return { url, smtp, close: () => Promise.resolve() };
}

async function started(options: StartOptions): Promise<Service> {
  try {
    const service = await startTmpmaild(options);
    process.env["TMPMAILD_URL"] = service.url;
    process.env["TMPMAILD_SMTP"] = `${service.smtp.host}:${String(service.smtp.port)}`;
    return { ...service, close: () => ended(service) };
  } catch (error) {
    shared[KEY] = undefined;
    throw error;
  }
}

async function ended(service: Service): Promise<void> {
  shared[KEY] = undefined;
  delete process.env["TMPMAILD_URL"];
  delete process.env["TMPMAILD_SMTP"];
  await service.close();
}
