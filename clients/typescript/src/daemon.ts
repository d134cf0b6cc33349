// A separate daemon for tests, which uses free ports and a temporary folder, and is always stopped afterwards.

import { type ChildProcess, spawn } from "node:child_process";
import { accessSync, closeSync, constants, fstatSync, mkdtempSync, openSync, readSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import type { Socket } from "node:net";
import { type Certificate, issued } from "./certificate.js";
import { NotStarted } from "./errors.js";

const START_MS = 30_000;
const STOP_MS = 10_000;
const MAX_LOG_BYTES = 4000;
const SERVE = ["serve", "--for-tests"];
const MAX_LINE_CHARACTERS = 10_000;

/** Options for starting the daemon. */
export interface StartOptions {
  /**
   * The program, and arguments before `serve`; by default `tmpmaild` in PATH. It is never interpreted as the name of an
   * npm package.
   */
  command?: string | readonly string[];
  /** Configuration keys that override the defaults for tests, such as `{ "smtp.listen": "127.0.0.1:2525" }`. */
  settings?: Readonly<Record<string, string | number | boolean>>;
  /**
   * Offer TLS with a new certificate (needs the `openssl` program): STARTTLS on `smtp`; also provides `smtps` and
   * `caFile`.
   */
  tls?: boolean;
  /** Accept every recipient, and list all messages in `Tmpmaild.allMail`. */
  catchAll?: boolean;
}

/** The address of an SMTP server. */
export interface SmtpServer {
  host: string;
  port: number;
}

/** A service for tests. */
export interface Service {
  /** The URL of its API. */
  readonly url: string;
  /** The SMTP server for the application under test. */
  readonly smtp: SmtpServer;
  /** The SMTP server with implicit TLS (`tls: true`). */
  readonly smtps?: SmtpServer | undefined;
  /** The file of the certificate authority, which your application must trust: `NODE_EXTRA_CA_CERTS` in its environment. */
  readonly caFile?: string | undefined;
  /** Stop the service, if it was started here. */
  close(): Promise<void>;
}

/**
 * Start a daemon that stops when `close()` is called or this process ends. This works even after SIGKILL, because the
 * system closes the pipe connected to the daemon's standard input. The daemon does not keep this process alive. Throws
 * `NotStarted`.
 */
export async function startTmpmaild(
  { command = "tmpmaild", settings = {}, tls = false, catchAll = false }: StartOptions = {},
): Promise<Service> {
  const [program = "", ...given] = typeof command === "string" ? [command] : command;
  const folder = mkdtempSync(join(tmpdir(), "tmpmaild-"));
  const path = found(program, folder);
  const certificate = tls ? issuedIn(folder) : undefined;
  const log = openedLog(folder);
  const all = certificate === undefined ? settings : { ...tlsSettings(certificate), ...settings };
  const serve = catchAll ? [...SERVE, "--catch-all"] : SERVE;
  const daemon = new Daemon(folder, log, spawned(path, [...given, ...serve], { folder, log, settings: all }), certificate?.certificate);
  try {
    const service = await daemon.announced();
    if (certificate) rmSync(certificate.key); // already read by the daemon; SIGKILL leaves only the certificate behind
    return service;
  } catch (error) {
    await daemon.close();
    throw error;
  }
}

/**
 * Return the path of a program. Programs from npm packages are ignored, because the npm package with our name may
 * belong to someone else.
 */
function found(program: string, folder: string): string {
  if (program.includes("/")) return program;
  const places = (process.env["PATH"] ?? "").split(delimiter).filter((place) => place && !place.includes("node_modules"));
  for (const path of places.map((place) => join(place, program))) {
    try {
      accessSync(path, constants.X_OK);
      return path;
    } catch {
      continue;
    }
  }
  rmSync(folder, { recursive: true, force: true });
  throw new NotStarted(
    `${JSON.stringify(program)} is not in PATH: pip install tmpmaild-VERSION-py3-none-any.whl of its release, or a checkout; ` +
      "or say where it is with { command }, or name a service that runs with $TMPMAILD_URL",
  );
}

function issuedIn(folder: string): Certificate {
  try {
    return issued(folder);
  } catch (error) {
    rmSync(folder, { recursive: true, force: true });
    throw error;
  }
}

function tlsSettings({ certificate, key }: Certificate): NonNullable<StartOptions["settings"]> {
  return { "smtp.tls_listen": "127.0.0.1:0", "smtp.tls_certificate": certificate, "smtp.tls_key": key };
}

/** Open a file for the daemon's log. It is unlinked immediately, so it does not have to be deleted later. */
function openedLog(folder: string): number {
  const file = join(folder, "stderr.txt");
  const log = openSync(file, "a+", 0o600);
  rmSync(file);
  return log;
}

interface Place {
  folder: string;
  log: number;
  settings: NonNullable<StartOptions["settings"]>;
}

function spawned(path: string, args: string[], { folder, log, settings }: Place): ChildProcess {
  // The process is detached, because Ctrl-C in a terminal must not stop it before the tests have ended.
  const env = environment(folder, settings);
  return spawn(path, args, { cwd: folder, env, stdio: ["pipe", "pipe", log], detached: true });
}

function environment(folder: string, settings: Place["settings"]): NodeJS.ProcessEnv {
  const clean = Object.entries(process.env).filter(([name]) => !name.startsWith("TMPMAILD_"));
  const own = Object.entries({ ...settings, "storage.path": join(folder, "tmpmaild.db") }).map(([key, value]) => [variable(key), `${value}`]);
  return Object.fromEntries([...clean, ...own]) as NodeJS.ProcessEnv;
}

function variable(key: string): string {
  return `TMPMAILD_${key.replace(".", "__").toUpperCase()}`;
}

class Daemon {
  readonly #child: ChildProcess;
  #isWanted = true;
  #isLogOpen = true;
  readonly #ended: Promise<string>;
  readonly #atExit = (): void => {
    this.#child.kill("SIGKILL");
    this.#removeFolder();
  };

  constructor(
    readonly folder: string,
    readonly log: number,
    child: ChildProcess,
    readonly caFile: string | undefined,
  ) {
    this.#child = child;
    process.on("exit", this.#atExit);
    this.#ended = new Promise((resolve) => {
      child.on("error", (error) => resolve(error.message));
      child.on("exit", (code, signal) => resolve(signal ?? `exit code ${String(code)}`));
    });
    child.stdin?.on("error", () => undefined); // the daemon has exited, and the exit event reports that
  }

  /** Return the service once the daemon has printed its listening addresses. */
  async announced(): Promise<Service> {
    let timer: NodeJS.Timeout | undefined;
    const tooLate = new Promise<string>((resolve) => {
      timer = setTimeout(() => resolve(`it was not ready within ${String(START_MS / 1000)} s`), START_MS);
    });
    const places = await Promise.race([this.#places(), this.#ended, tooLate]);
    clearTimeout(timer);
    if (typeof places === "string") throw new NotStarted(`tmpmaild did not start: ${places}; it said:\n${this.#log()}`);
    this.#letProcessEnd();
    void this.#ended.then((reason) => this.#warn(reason));
    return { ...places, caFile: this.caFile, close: () => this.close() };
  }

  async close(): Promise<void> {
    this.#isWanted = false;
    process.off("exit", this.#atExit);
    this.#child.kill("SIGTERM");
    const timer = setTimeout(() => this.#child.kill("SIGKILL"), STOP_MS);
    await this.#ended;
    clearTimeout(timer);
    if (this.#isLogOpen) closeSync(this.log);
    this.#isLogOpen = false;
    this.#removeFolder();
  }

  /** Return the addresses in the daemon's first line of output; any other text is returned unchanged. */
  #places(): Promise<Places | string> {
    let said = "";
    return new Promise((resolve) => {
      this.#child.stdout?.on("data", (piece: Buffer) => {
        if (said.includes("\n") || said.length > MAX_LINE_CHARACTERS) return;
        said += piece.toString();
        if (said.includes("\n")) resolve(placesOf(said));
      });
    });
  }

  #letProcessEnd(): void {
    this.#child.unref();
    for (const pipe of [this.#child.stdin, this.#child.stdout]) (pipe as Socket | null)?.unref();
  }

  #warn(reason: string): void {
    if (!this.#isWanted) return;
    process.emitWarning(`the tmpmaild of the tests has ended: ${reason}; it said:\n${this.#log()}`, "TmpmaildWarning");
  }

  #log(): string {
    const sizeBytes = fstatSync(this.log).size;
    const end = Buffer.alloc(Math.min(sizeBytes, MAX_LOG_BYTES));
    readSync(this.log, end, 0, end.length, sizeBytes - end.length);
    return end.toString();
  }

  #removeFolder(): void {
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 3 });
  }
}

interface Places {
  url: string;
  smtp: SmtpServer;
  smtps: SmtpServer | undefined;
}

function placesOf(line: string): Places | string {
  try {
    const { http, smtp, smtps } = JSON.parse(line) as { http: string; smtp: string; smtps: string | null };
    return { url: http, smtp: smtpServer(smtp), smtps: smtps === null ? undefined : smtpServer(smtps) };
  } catch {
    return `it printed ${JSON.stringify(line)}`;
  }
}

/** Parse `HOST` or `HOST:PORT`; the default port is 1025 for this machine, and 25 for others. Throws TypeError. */
export function smtpServer(text: string): SmtpServer {
  const parts = /^(\[[\da-f:.]+\]|[^\s:/@[\]]+)(?::(\d{1,5}))?$/i.exec(text);
  const host = parts?.[1]?.replace(/^\[|\]$/g, "") ?? "";
  const isHere = host === "localhost" || host === "::1" || host.startsWith("127.");
  const port = Number(parts?.[2] ?? (isHere ? 1025 : 25));
  if (!host || port < 1 || port > 65_535) {
    throw new TypeError(`${JSON.stringify(text)} is not a mail server, expected HOST or HOST:PORT`);
  }
  return { host, port };
}
