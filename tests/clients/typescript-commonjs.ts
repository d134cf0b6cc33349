import { Problem, Tmpmaild, startForRun } from "tmpmaild";
import { withInbox } from "tmpmaild/testing";
import setup from "tmpmaild/global-setup";
async function main(): Promise<void> {
  const { url, close } = await startForRun();
  const error: unknown = await new Tmpmaild(url).create({ localPart: "x" }).catch((error: unknown) => error);
  console.log(error instanceof Problem && error.code === "invalid-request", withInbox.length, typeof setup);
  await close();
}
void main();
