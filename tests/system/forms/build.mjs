// Builds the forms into the given folder, each as a script for an empty page.

import { readFile } from "node:fs/promises";
import { build } from "esbuild";
import { compile } from "svelte/compiler";

const svelte = {
  name: "svelte",
  setup: ({ onLoad }) => onLoad({ filter: /\.svelte$/ }, async ({ path }) => ({
    contents: compile(await readFile(path, "utf8"), { filename: path, generate: "client" }).js.code,
  })),
};
await build({
  entryPoints: ["react.jsx", "vue.js", "svelte.js", "six.jsx"],
  bundle: true,
  minify: true,
  outdir: process.argv[2],
  define: { "process.env.NODE_ENV": '"production"', __VUE_OPTIONS_API__: "false", __VUE_PROD_DEVTOOLS__: "false", __VUE_PROD_HYDRATION_MISMATCH_DETAILS__: "false" },
  jsx: "automatic",
  conditions: ["browser"],
  plugins: [svelte],
});
