import { defineConfig } from "@playwright/test";
import { startForRun } from "tmpmaild";

const { smtp } = await startForRun();
const port = process.env.PORT ?? "8000";

export default defineConfig({
  use: {
    baseURL: `http://127.0.0.1:${port}`,
    launchOptions: { executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] },
  },
  webServer: {
    command: "node shop.mjs",
    url: `http://127.0.0.1:${port}`,
    env: { PORT: port, SMTP_HOST: smtp.host, SMTP_PORT: String(smtp.port) },
  },
});
