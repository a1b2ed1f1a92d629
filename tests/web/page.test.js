import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

const WEB = new URL("../../web/", import.meta.url);
const IMPORTED = /^(?:import|\}|export)[^"\n]*\sfrom "(\.[^"]+)";$/gm;

/** Modules that the page loads before it paints. @param {URL} module @param {Set<string>} [seen] */
function modulesOf(module, seen = new Set()) {
  if (seen.has(module.href)) return seen;
  seen.add(module.href);
  for (const [, path = ""] of readFileSync(module, "utf8").matchAll(IMPORTED))
    modulesOf(new URL(path, module), seen);
  return seen;
}

test("the page asks for all of its modules at once, and for no other", () => {
  const html = readFileSync(new URL("index.html", WEB), "utf8");
  const preloaded = [...html.matchAll(/<link rel="modulepreload" href="([^"]+)">/g)].map(
    ([, path = ""]) => path,
  );
  const main = new URL("main.js", WEB);
  const needed = [...modulesOf(main)]
    .filter((href) => href !== main.href)
    .map((href) => href.slice(WEB.href.length));
  assert.deepEqual(preloaded, needed.toSorted());
});
