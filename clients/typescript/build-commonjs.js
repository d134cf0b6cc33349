// Builds the package for `require` from the same sources. It only converts the syntax, since the build for `import` has
// already checked the types with tsc.

import { copyFileSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import ts from "typescript";

const compilerOptions = { module: ts.ModuleKind.CommonJS, target: ts.ScriptTarget.ES2022, esModuleInterop: true };

mkdirSync("dist/cjs", { recursive: true });
writeFileSync("dist/cjs/package.json", '{ "type": "commonjs" }\n');
for (const file of readdirSync("src")) {
  const name = file.replace(/\.ts$/, "");
  const { outputText } = ts.transpileModule(readFileSync(`src/${file}`, "utf8"), { compilerOptions });
  writeFileSync(`dist/cjs/${name}.js`, outputText);
  copyFileSync(`dist/esm/${name}.d.ts`, `dist/cjs/${name}.d.ts`);
}
