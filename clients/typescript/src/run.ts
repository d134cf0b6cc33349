// The service for a whole test run: the service set in the environment, or else a daemon that all processes share.

import { type Service, type SmtpServer, type StartOptions, smtpServer, startTmpmaild } from "./daemon.js";
import { serviceUrl } from "./http.js";

// Both builds of this package, for `import` and for `require`, share the daemon.
const KEY = Symbol.for("tmpmaild.run");
const shared = globalThis as { [KEY]?: Promise<Service> | undefined };

/** Options for starting and using the service of a run. */
export interface RunOptions extends StartOptions {
  /** The default timeout of waits: sets `$TMPMAILD_TIMEOUT_MS` for all processes started from now on. */
  timeoutMs?: number;
}

/**
 * Return the service at `$TMPMAILD_URL`, with `$TMPMAILD_SMTP` for mail (`HOST:PORT`). If it is not set, start a daemon
 * once and set these variables; processes started from now on then share it. Throws `NotStarted`.
 */
export async function startForRun({ timeoutMs, ...options }: RunOptions = {}): Promise<Service> {
  if (timeoutMs !== undefined) process.env["TMPMAILD_TIMEOUT_MS"] = String(timeoutMs);
  return (shared[KEY] ??= process.env["TMPMAILD_URL"] ? Promise.resolve(given()) : started(options));
}

function given(): Service {
  const url = serviceUrl();
  const smtp = smtpServer(process.env["TMPMAILD_SMTP"] || new URL(url).hostname);
  const tls = process.env["TMPMAILD_SMTPS"];
  const [smtps, caFile] = [tls ? smtpServer(tls) : undefined, process.env["TMPMAILD_CA_FILE"]];
  return { url, smtp, smtps, caFile, close: () => Promise.resolve() };
}

async function started(options: StartOptions): Promise<Service> {
  try {
    const service = await startTmpmaild(options);
    process.env["TMPMAILD_URL"] = service.url;
    process.env["TMPMAILD_SMTP"] = written(service.smtp);
    if (service.smtps) process.env["TMPMAILD_SMTPS"] = written(service.smtps);
    if (service.caFile) process.env["TMPMAILD_CA_FILE"] = service.caFile;
    return { ...service, close: () => ended(service) };
  } catch (error) {
    shared[KEY] = undefined;
    throw error;
  }
}

async function ended(service: Service): Promise<void> {
  shared[KEY] = undefined;
  for (const name of ["URL", "SMTP", "SMTPS", "CA_FILE"]) Reflect.deleteProperty(process.env, `TMPMAILD_${name}`);
  await service.close();
}

function written({ host, port }: SmtpServer): string {
  return `${host.includes(":") ? `[${host}]` : host}:${String(port)}`;
}
