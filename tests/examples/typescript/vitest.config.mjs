import { defineConfig } from "vitest/config";

export default defineConfig({ test: { globalSetup: "tmpmaild/global-setup" } });
