import { readFileSync } from "node:fs";
import { startForRun } from "tmpmaild";
await startForRun();
console.log(readFileSync(`/proc/self/task/${process.pid}/children`, "utf8"));
setInterval(() => undefined, 1000);
