import assert from "node:assert/strict";
import { test } from "node:test";
import { BootError, explain, requireWebAssembly } from "../../web/boot-failure.js";

for (const [name, cause] of Object.entries({
  "V8 without room for an instance": new RangeError(
    "WebAssembly.instantiate(): Out of memory: Cannot allocate Wasm memory for new instance",
  ),
  "V8 without room for a memory": new RangeError("WebAssembly.Memory(): could not allocate memory"),
  "SpiderMonkey": new Error("out of memory"),
  "Python": new Error("Traceback (most recent call last):\n  File x\nMemoryError\n"),
})) {
  test(`out of memory is known in the words of: ${name}`, () => {
    assert.equal(explain(cause).code, "out-of-memory");
  });
}

test("any other cause is told by its last line, where Python puts it", () => {
  const traceback = "Traceback (most recent call last):\n  File x\nImportError: no module named y\n";
  const problem = explain(new Error(traceback));
  assert.equal(problem.code, "engine-broken");
  assert.equal(problem.message, "The engine stopped: ImportError: no module named y");
});

test("a cause that is no Error is told too", () => {
  assert.equal(explain("gone").message, "The engine stopped: gone");
});

test("a known reason keeps its sentence", () => {
  const problem = { code: "engine-file", message: "m", hint: "h" };
  assert.equal(explain(new BootError(problem)), problem);
});

test("a browser with WebAssembly passes", () => {
  requireWebAssembly(globalThis);
});

test("a browser without WebAssembly is told apart from a policy that forbids it", () => {
  assert.throws(() => requireWebAssembly({}), (error) => explain(error).code === "no-webassembly");
  class Module {
    constructor() {
      throw new WebAssembly.CompileError("violates the following Content Security policy directive");
    }
  }
  const forbidden = { WebAssembly: { ...WebAssembly, Module } };
  assert.throws(() => requireWebAssembly(forbidden), (error) => explain(error).code === "wasm-blocked");
});
