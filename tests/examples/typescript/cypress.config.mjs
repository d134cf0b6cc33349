import { defineConfig } from "cypress";
import { Tmpmaild, startForRun } from "tmpmaild";

const { url, smtp } = await startForRun();
const tmpmail = new Tmpmaild(url);
const inboxes = new Map(); // a task is given and returns JSON, so the inboxes stay here
console.log(`mail goes to ${smtp.host}:${smtp.port}`);

export default defineConfig({
  e2e: {
    baseUrl: process.env.SHOP_URL,
    supportFile: false,
    taskTimeout: 65_000,
    setupNodeEvents(on) {
      on("task", {
        async newInbox() {
          const inbox = await tmpmail.create({ private: true });
          inboxes.set(inbox.address, inbox);
          return inbox.address;
        },
        waitForCode: ({ address, ...wait }) => inboxes.get(address).waitForCode(wait),
        waitForLink: ({ address, ...wait }) => inboxes.get(address).waitForLink(wait),
      });
      on("after:run", () => Promise.all([...inboxes.values()].map((inbox) => inbox.delete())));
    },
  },
});
