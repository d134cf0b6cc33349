// The global setup of Playwright, Vitest and Jest: one daemon for all workers of a run.

import { startForRun } from "./run.js";

/** Start the daemon, unless `$TMPMAILD_URL` names a service; return what ends it. (Jest ends it with its process.) */
export default async function globalSetup(): Promise<() => Promise<void>> {
  const service = await startForRun();
  return () => service.close();
}
