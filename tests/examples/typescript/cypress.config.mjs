import { defineConfig } from "cypress";
import { startForRun } from "tmpmaild";
import { tmpmaildTasks } from "tmpmaild/cypress";

const { smtp } = await startForRun();
console.log(`mail goes to ${smtp.host}:${smtp.port}`);

export default defineConfig({
  e2e: {
    baseUrl: process.env.SHOP_URL,
    setupNodeEvents(on) {
      tmpmaildTasks(on);
    },
  },
});
