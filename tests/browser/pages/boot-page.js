/** The engine and nothing else of the site. `?dist=PATH` says where it lies, `worker` names another script. */

const query = new URLSearchParams(location.search);
const dist = new URL(`${query.get("dist")}/`, location.href);
const { EngineClient } = await import(new URL("engine-client.js", dist).href);

const statuses = [];
globalThis.statuses = statuses;
globalThis.client = new EngineClient({
  onStatus: (status) => statuses.push(status),
  ...(query.get("worker") && { workerUrl: new URL(query.get("worker"), location.href) }),
});

/** A call's outcome as plain data. */
globalThis.ask = async (method, params, bytes) => {
  try {
    const options = bytes ? { payload: new Uint8Array(bytes).buffer } : {};
    return { value: await globalThis.client.call(method, params, options) };
  } catch (error) {
    return { error: { code: error.code, message: error.message, hint: error.hint } };
  }
};
