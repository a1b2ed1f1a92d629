import assert from "node:assert/strict";
import { test } from "node:test";
import { EngineClient } from "../../web/engine-client.js";
import { EngineError } from "../../web/protocol.js";

const HUNG_MS = 20;
const PATIENT_MS = 60_000;

/** A worker that does what the test says, and remembers what it was sent. */
class FakeWorker extends EventTarget {
  sent = [];
  terminated = false;

  /** @param {string} boot */
  constructor(boot) {
    super();
    this.boot = boot;
  }

  postMessage(message, transfer) {
    this.sent.push(structuredClone(message, { transfer }));
  }

  terminate() {
    this.terminated = true;
  }

  say(message) {
    this.dispatchEvent(new MessageEvent("message", { data: message }));
  }

  stage(stage, more = {}) {
    this.say({ kind: "status", stage, boot: this.boot, ...more });
  }

  break(message) {
    this.dispatchEvent(Object.assign(new Event("error", { cancelable: true }), { message }));
  }
}

/** A client over fake workers, with all that it told. */
function setUp(t, options = {}) {
  const workers = [];
  const statuses = [];
  const client = new EngineClient({
    onStatus: (status) => statuses.push(status),
    stallTimeoutMs: PATIENT_MS,
    createWorker: (boot) => {
      const worker = new FakeWorker(boot);
      workers.push(worker);
      return worker;
    },
    ...options,
  });
  t.after(() => client.close());
  return { client, workers, statuses };
}

const PROBLEM = { code: "engine-file", message: "A file is missing.", hint: "Publish it." };
const OTHER_PROBLEM = { code: "engine-broken", message: "It broke.", hint: "Reload." };

test("calls made before the engine is ready are sent in order when it is", async (t) => {
  const { client, workers } = setUp(t);
  const first = client.call("catalog");
  const second = client.call("plan", { query: { gpu: "h100" } });
  assert.deepEqual(workers[0].sent, []);
  workers[0].stage("ready");
  assert.deepEqual(workers[0].sent, [
    { kind: "call", id: 1, method: "catalog", params: {} },
    { kind: "call", id: 2, method: "plan", params: { query: { gpu: "h100" } } },
  ]);
  workers[0].say({ kind: "result", id: 2, value: "two" });
  workers[0].say({ kind: "result", id: 1, value: "one" });
  assert.equal(await first, "one");
  assert.equal(await second, "two");
});

test("a payload is transferred, not copied", async (t) => {
  const { client, workers } = setUp(t);
  workers[0].stage("ready");
  const payload = new Uint8Array([1, 2, 3]).buffer;
  const call = client.call("add_header", { key: "k" }, { payload });
  assert.equal(payload.byteLength, 0);
  assert.deepEqual(new Uint8Array(workers[0].sent[0].payload), new Uint8Array([1, 2, 3]));
  workers[0].say({ kind: "result", id: 1, value: {} });
  await call;
});

test("a failure is rebuilt as an EngineError with code and hint", async (t) => {
  const { client, workers } = setUp(t);
  workers[0].stage("ready");
  const call = client.call("plan");
  workers[0].say({ kind: "failure", id: 1, error: { code: "config", message: "no head_dim", hint: "Set it." } });
  await assert.rejects(call, (error) => {
    assert.ok(error instanceof EngineError);
    assert.equal(error.code, "config");
    assert.equal(error.message, "no head_dim");
    assert.equal(error.hint, "Set it.");
    return true;
  });
});

test("an abort rejects at once with its reason, and the late reply is dropped", async (t) => {
  const { client, workers } = setUp(t);
  workers[0].stage("ready");
  const abort = new AbortController();
  const call = client.call("plan", {}, { signal: abort.signal });
  abort.abort(new Error("newer request"));
  await assert.rejects(call, { message: "newer request" });
  workers[0].say({ kind: "result", id: 1, value: "late" });
  const next = client.call("plan");
  workers[0].say({ kind: "result", id: 2, value: "next" });
  assert.equal(await next, "next");
});

test("a call aborted before the engine is ready is never sent", async (t) => {
  const { client, workers } = setUp(t);
  const abort = new AbortController();
  const call = client.call("plan", {}, { signal: abort.signal });
  abort.abort();
  await assert.rejects(call, { name: "AbortError" });
  workers[0].stage("ready");
  assert.deepEqual(workers[0].sent, []);
});

test("a signal that was aborted before rejects the call", async (t) => {
  const { client } = setUp(t);
  await assert.rejects(client.call("plan", {}, { signal: AbortSignal.abort() }), { name: "AbortError" });
});

test("a settled call leaves no listener on its signal", async (t) => {
  const { client, workers } = setUp(t);
  workers[0].stage("ready");
  const abort = new AbortController();
  const call = client.call("plan", {}, { signal: abort.signal });
  workers[0].say({ kind: "result", id: 1, value: "in time" });
  abort.abort();
  assert.equal(await call, "in time");
});

test("a boot that fails gives way to the next, which gets the waiting calls", async (t) => {
  const { client, workers, statuses } = setUp(t);
  const call = client.call("catalog");
  workers[0].stage("failed", { error: PROBLEM });
  assert.ok(workers[0].terminated);
  assert.deepEqual(
    workers.map(({ boot }) => boot),
    ["one-zip", "packages"],
  );
  assert.deepEqual(statuses.at(-1), {
    kind: "status",
    stage: "download",
    boot: "packages",
    detail: "Trying another way to start: A file is missing.",
  });
  workers[1].stage("ready");
  assert.equal(workers[1].sent.length, 1);
  workers[1].say({ kind: "result", id: 1, value: "catalog" });
  assert.equal(await call, "catalog");
});

test("what the first worker says after its end is not heard", (t) => {
  const { workers, statuses } = setUp(t);
  workers[0].stage("failed", { error: PROBLEM });
  workers[0].stage("ready");
  assert.equal(statuses.at(-1).stage, "download");
});

test("when every boot failed, calls are rejected with the first cause and the last is a detail", async (t) => {
  const { client, workers, statuses } = setUp(t);
  const early = client.call("catalog");
  workers[0].stage("failed", { error: PROBLEM });
  workers[1].stage("failed", { error: OTHER_PROBLEM });
  await assert.rejects(early, PROBLEM);
  await assert.rejects(client.call("plan"), PROBLEM);
  assert.deepEqual(statuses.at(-1), {
    kind: "status",
    stage: "failed",
    boot: "packages",
    error: PROBLEM,
    detail: "packages: It broke.",
  });
});

test("failed is the end: nothing that comes later changes it", (t) => {
  const { client, workers, statuses } = setUp(t);
  workers[0].stage("failed", { error: PROBLEM });
  workers[1].stage("failed", { error: OTHER_PROBLEM });
  const told = statuses.length;
  workers[1].stage("ready");
  client.close();
  assert.equal(statuses.length, told);
  assert.equal(client.status.error, PROBLEM);
});

for (const code of ["no-webassembly", "wasm-blocked"]) {
  test(`${code} ends the start at once: no other boot gets round it`, (t) => {
    const { workers, statuses } = setUp(t);
    workers[0].stage("failed", { error: { ...PROBLEM, code } });
    assert.equal(workers.length, 1);
    assert.equal(statuses.at(-1).stage, "failed");
  });
}

test("a worker that never spoke could not start", (t) => {
  const { client, workers } = setUp(t);
  workers[0].break("");
  workers[1].break("");
  assert.equal(client.status.error?.code, "worker-blocked");
  assert.match(client.status.error?.message ?? "", /engine-worker\.js/);
});

test("a worker that cannot even be made could not start", (t) => {
  const { client } = setUp(t, {
    createWorker() {
      throw new DOMException("refused", "SecurityError");
    },
  });
  assert.equal(client.status.error?.code, "worker-blocked");
});

test("a boot without a sign of life gives way, and the sentence says what it was at", async (t) => {
  const { promise: failed, onStatus } = untilFailed();
  const { workers, client } = setUp(t, { stallTimeoutMs: HUNG_MS, onStatus });
  workers[0].stage("start");
  await failed;
  assert.deepEqual(
    workers.map(({ terminated }) => terminated),
    [true, true],
  );
  assert.equal(client.status.error?.code, "engine-timeout");
  // The second boot never got as far as Python; the first one's cause is the one that is told.
  assert.match(client.status.error?.message ?? "", /start Python/);
});

test("a ready engine may be idle for as long as it likes", async (t) => {
  const { workers, client } = setUp(t, { stallTimeoutMs: HUNG_MS });
  workers[0].stage("ready");
  await new Promise((resolve) => setTimeout(resolve, 3 * HUNG_MS));
  assert.equal(client.status.stage, "ready");
});

test("an engine that dies after it was ready is not started again", async (t) => {
  const { client, workers, statuses } = setUp(t);
  workers[0].stage("ready");
  const open = client.call("plan");
  workers[0].stage("failed", { error: OTHER_PROBLEM });
  assert.equal(workers.length, 1);
  assert.equal(statuses.at(-1).stage, "failed");
  await assert.rejects(open, OTHER_PROBLEM);
});

test("close ends the worker and rejects what is open", async (t) => {
  const { client, workers } = setUp(t);
  const open = client.call("plan");
  client.close();
  assert.ok(workers[0].terminated);
  await assert.rejects(open, { code: "engine-closed" });
});

/** A promise of the end of a start, and the listener that keeps it. */
function untilFailed() {
  let onStatus;
  const promise = new Promise((resolve) => {
    onStatus = ({ stage }) => stage === "failed" && resolve(undefined);
  });
  return { promise, onStatus };
}
