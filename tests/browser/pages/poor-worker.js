/** The engine's worker in a browser that lacks something: `?lacks=memory` or `?lacks=webassembly`. */

const query = new URL(import.meta.url).searchParams;
switch (query.get("lacks")) {
  case "memory":
    // V8's own words, at the place where it says them.
    WebAssembly.instantiateStreaming = async () => {
      throw new RangeError("WebAssembly.instantiate(): Out of memory: Cannot allocate Wasm memory for new instance");
    };
    break;
  case "webassembly":
    Reflect.deleteProperty(globalThis, "WebAssembly");
    break;
  default:
    throw new TypeError("poor-worker.js?lacks=memory or webassembly");
}
await import(new URL(`${query.get("dist")}/engine-worker.js`, import.meta.url).href);
