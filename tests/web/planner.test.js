import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";

import { HubError } from "../../web/hub-errors.js";
import { Planner } from "../../web/planner.js";
import { EngineError } from "../../web/protocol.js";

/** @import { HubClient } from "../../web/hub.js" */
/** @import { PlanReport } from "../../web/report.d.ts" */
/** @import { Trouble } from "../../web/view/messages.js" */

const SHA = "0123456789abcdef0123456789abcdef01234567";
const CATALOGUED = { id: "org/known", revision: SHA, gated: false };

/** An engine whose replies a test gives by hand, and which notes what it was asked. */
class FakeEngine {
  /** @type {{ method: string, params: any, resolve: (value: any) => void, reject: (error: unknown) => void, aborted: boolean }[]} */
  calls = [];
  /** @type {Record<string, (params: any) => unknown>} methods that answer at once */
  replies = { catalog: () => ({ models: [CATALOGUED] }), drop: () => ({}) };

  /** @param {string} method @param {any} params @param {{ signal?: AbortSignal }} [options] @returns {Promise<any>} */
  call = (method, params = {}, { signal } = {}) =>
    new Promise((resolve, reject) => {
      const call = { method, params, resolve, reject, aborted: false };
      this.calls.push(call);
      signal?.addEventListener("abort", () => {
        call.aborted = true;
        reject(signal.reason);
      });
      const reply = this.replies[method];
      if (reply) {
        try {
          resolve(reply(params));
        } catch (error) {
          reject(error);
        }
      }
    });

  /** @param {string} method */
  of(method) {
    return this.calls.filter((call) => call.method === method);
  }
}

/** A header as the Hub's reader gives it. @param {string} path */
const header = async (path) => ({ bytes: new TextEncoder().encode(path), fileSize: 100, requests: 1 });

/** A Hub with one two-shard repository. @param {Partial<Record<keyof HubClient, any>>} [parts] */
const fakeHub = (parts = {}) =>
  /** @type {HubClient} */ (
    /** @type {unknown} */ ({
      modelInfo: async (/** @type {string} */ id) => ({
        id,
        sha: SHA,
        gated: false,
        private: false,
        files: [
          { name: "config.json", size: 10 },
          { name: "model-00001-of-00002.safetensors", size: 100 },
          { name: "model-00002-of-00002.safetensors", size: 50 },
        ],
        parameters: { BF16: 75 },
      }),
      text: async () => "{}",
      header: async (/** @type {string} */ _id, /** @type {string} */ _sha, /** @type {string} */ path) =>
        header(path),
      ...parts,
    })
  );

/** @param {{ engine: FakeEngine, hub?: HubClient, readsLive?: boolean }} options */
function startPlanner({ engine, hub = fakeHub(), readsLive = true }) {
  /** @type {{ reports: { report: any, isFinal: boolean }[], trouble: Trouble | null, notes: readonly Trouble[], gated: boolean, stages: string[] }} */
  const seen = { reports: [], trouble: null, notes: [], gated: false, stages: [] };
  const planner = new Planner({
    engine,
    createHub: () => hub,
    readsLive,
    signal: new AbortController().signal,
    events: {
      onAnswer: (report, isFinal) => seen.reports.push({ report, isFinal }),
      onPending: () => {},
      onTrouble: (trouble) => {
        seen.trouble = trouble;
      },
      onNotes: (notes) => {
        seen.notes = notes;
      },
      onProgress: ({ stage }) => seen.stages.push(stage),
      onGated: (gated) => {
        seen.gated = gated;
      },
    },
  });
  return { planner, seen };
}

const settled = () => pause(10);
const READ = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];

const CHOICE = { kind: "safetensors", read: READ, configs: ["config.json"], sentence: "", ignored: [] };

/** An engine that takes in what it is given and repeats what a plan was asked with. */
function takingEngine() {
  const engine = new FakeEngine();
  Object.assign(engine.replies, {
    choose_files: () => CHOICE,
    open_checkpoint: () => ({}),
    add_header: () => ({}),
    plan: (/** @type {object} */ params) => params,
  });
  return engine;
}

test("a model is read into the core, and planned rough first and whole then", async () => {
  const engine = takingEngine();
  const { planner, seen } = startPlanner({ engine });
  planner.ask({ model: "org/new", users: "2" });
  await settled();
  const key = `org/new@${SHA}`;
  assert.deepEqual(
    engine
      .of("add_header")
      .map(({ params }) => [params.key, params.file, params.file_size])
      .sort(),
    READ.map((file) => [key, file, 100]),
  );
  const first = seen.reports[0];
  assert.deepEqual(first?.report.hub, {
    id: "org/new",
    sha: SHA,
    gated: false,
    file_bytes: 150,
    parameters: { BF16: 75 },
  });
  assert.equal(first?.isFinal, false);
  const last = seen.reports.at(-1);
  assert.deepEqual([last?.report.checkpoint, last?.report.hub, last?.isFinal], [key, null, true]);
  assert.equal(seen.stages.at(-1), "done");
});

test("a model of the catalog is answered while the Hub is silent", async () => {
  const engine = takingEngine();
  const { planner, seen } = startPlanner({
    engine,
    hub: fakeHub({ modelInfo: () => new Promise(() => {}) }),
  });
  planner.ask({ model: "Org/Known" });
  await settled();
  assert.equal(seen.reports.length, 1);
  assert.deepEqual([seen.reports[0]?.report.checkpoint, seen.reports[0]?.isFinal], [null, true]);
});

test("another revision than the catalog's is read, not answered from it", async () => {
  const engine = takingEngine();
  const { planner, seen } = startPlanner({
    engine,
    hub: fakeHub({ modelInfo: () => new Promise(() => {}) }),
  });
  planner.ask({ model: "org/known@v2" });
  await settled();
  assert.deepEqual(seen.reports, []);
  planner.ask({ model: `org/known@${SHA}` });
  await settled();
  assert.equal(seen.reports.length, 1);
});

test("an unreachable Hub is a note beside a catalog answer, and trouble for any other model", async () => {
  const unreachable = new HubError("unreachable", "The Hub could not be reached.", "Check the connection.");
  const hub = fakeHub({ modelInfo: async () => Promise.reject(unreachable) });
  const known = startPlanner({ engine: takingEngine(), hub });
  known.planner.ask({ model: "org/known" });
  await settled();
  assert.equal(known.seen.trouble, null);
  assert.deepEqual(known.seen.notes, [
    { message: "The Hub was not read: The Hub could not be reached.", quiet: true },
  ]);
  const other = startPlanner({ engine: takingEngine(), hub });
  other.planner.ask({ model: "org/other" });
  await settled();
  assert.deepEqual(other.seen.trouble, {
    message: "The Hub could not be reached.",
    hint: "Check the connection.",
    link: null,
  });
  assert.equal(
    other.seen.reports.at(-1)?.isFinal,
    true,
    "the rest of the page is answered with what there is",
  );
});

test("an embed does not ask the Hub about a model of the catalog", async () => {
  let asked = 0;
  const hub = fakeHub({
    modelInfo: () => {
      asked += 1;
      return new Promise(() => {});
    },
  });
  const { planner } = startPlanner({ engine: takingEngine(), hub, readsLive: false });
  planner.ask({ model: "org/known" });
  await settled();
  assert.equal(asked, 0);
  planner.ask({ model: "org/other" });
  await settled();
  assert.equal(asked, 1);
});

test("while one question is open only the latest of the others is asked", async () => {
  const engine = takingEngine();
  delete engine.replies.plan;
  const { planner, seen } = startPlanner({
    engine,
    hub: fakeHub({ modelInfo: () => new Promise(() => {}) }),
  });
  for (const users of ["1", "2", "3", "4"]) {
    planner.ask({ model: "org/known", users });
    await settled();
  }
  assert.equal(engine.of("plan").length, 1);
  engine.of("plan")[0]?.resolve({ users: "first" });
  await settled();
  assert.deepEqual(
    engine.of("plan").map(({ params }) => params.query.users),
    ["1", "4"],
  );
  engine.of("plan")[1]?.resolve({ users: "last" });
  await settled();
  assert.deepEqual(
    seen.reports.map(({ report, isFinal }) => [report.users, isFinal]),
    [
      ["first", false],
      ["last", true],
    ],
  );
});

test("another model ends the question about the one before", async () => {
  const engine = takingEngine();
  const { planner, seen } = startPlanner({ engine });
  planner.ask({ model: "org/one" });
  await settled();
  delete engine.replies.plan;
  planner.ask({ model: "org/one", users: "9" });
  await settled();
  const open = engine.of("plan").at(-1);
  planner.ask({ model: "org/two" });
  await settled();
  assert.equal(open?.aborted, true);
  assert.equal(
    seen.reports.some(({ report }) => report.query.users === "9"),
    false,
  );
});

test("a model that the core still holds is asked for again without reading it", async () => {
  const engine = takingEngine();
  const { planner, seen } = startPlanner({ engine });
  for (const model of ["org/one", "org/two", "org/one"]) {
    planner.ask({ model });
    await settled();
  }
  assert.equal(engine.of("open_checkpoint").length, 2);
  assert.equal(engine.of("add_header").length, 2 * READ.length);
  assert.deepEqual(
    [seen.reports.at(-1)?.report.checkpoint, seen.reports.at(-1)?.isFinal],
    [`org/one@${SHA}`, true],
  );
});

test("of many models the core is let forget the one longest not asked for", async () => {
  const engine = takingEngine();
  const { planner } = startPlanner({ engine });
  for (const name of ["a", "b", "c", "d", "a", "e"]) {
    planner.ask({ model: `org/${name}` });
    await settled();
  }
  assert.deepEqual(
    engine.of("drop").map(({ params }) => params.key),
    [`org/b@${SHA}`],
  );
});

test("when all of a repository is shut, each read fails and one sentence is said", async () => {
  const shut = async () => Promise.reject(new HubError("gated", "org/shut is gated.", "Use a token."));
  const engine = takingEngine();
  delete engine.replies.choose_files;
  const { planner, seen } = startPlanner({ engine, hub: fakeHub({ header: shut, text: shut }) });
  planner.ask({ model: "org/shut" });
  await settled();
  engine.of("choose_files")[0]?.resolve(CHOICE);
  await settled();
  assert.equal(seen.trouble?.message, "org/shut is gated.");
});

test("a gated model says so, with and without a listing", async () => {
  const gated = new HubError("gated", "org/shut is gated.", "Use a token.", {
    link: "https://huggingface.co/org/shut",
  });
  const { planner, seen } = startPlanner({
    engine: takingEngine(),
    hub: fakeHub({ header: async () => Promise.reject(gated) }),
  });
  planner.ask({ model: "org/shut" });
  await settled();
  assert.equal(seen.gated, true);
  assert.equal(seen.trouble?.link, "https://huggingface.co/org/shut");
});

test("headers that the core refuses are trouble in its words", async () => {
  const engine = takingEngine();
  engine.replies.add_header = () => {
    throw new EngineError({
      code: "header",
      message: "The header is no JSON.",
      hint: "Take another revision.",
    });
  };
  const { planner, seen } = startPlanner({ engine });
  planner.ask({ model: "org/broken" });
  await settled();
  assert.deepEqual(seen.trouble, { message: "The header is no JSON.", hint: "Take another revision." });
});

test("a repository without readable weights is trouble in the core's sentence", async () => {
  const engine = takingEngine();
  engine.replies.choose_files = () => ({
    kind: "gguf",
    read: [],
    configs: [],
    sentence: "These are GGUF files.",
    ignored: [],
  });
  const { planner, seen } = startPlanner({ engine });
  planner.ask({ model: "org/gguf" });
  await settled();
  assert.equal(seen.trouble?.message, "These are GGUF files.");
  assert.equal(engine.of("open_checkpoint").length, 0);
});

test("a wrong guess is put right: what the core chose is read, each file once", async () => {
  const engine = takingEngine();
  engine.replies.choose_files = () => ({
    kind: "safetensors",
    read: ["weights.safetensors"],
    configs: [],
    sentence: "One of two.",
    ignored: [{ name: "model.safetensors", reason: "a second copy" }],
  });
  const hub = fakeHub({
    modelInfo: async (/** @type {string} */ id) => ({
      id,
      sha: SHA,
      gated: false,
      private: false,
      files: [
        { name: "model.safetensors", size: 7 },
        { name: "weights.safetensors", size: 9 },
      ],
      parameters: null,
    }),
  });
  const { planner, seen } = startPlanner({ engine, hub });
  planner.ask({ model: "org/odd" });
  await settled();
  assert.deepEqual(
    engine.of("add_header").map(({ params }) => params.file),
    ["weights.safetensors"],
  );
  assert.equal(seen.reports.at(-1)?.report.checkpoint, `org/odd@${SHA}`);
  assert.deepEqual(seen.notes, [{ message: "One of two.", quiet: true }]);
});

test("an engine that does not start is said in its own words", async () => {
  const engine = new FakeEngine();
  const broken = new EngineError({
    code: "wasm-blocked",
    message: "WebAssembly is forbidden.",
    hint: "Allow it.",
  });
  for (const method of ["catalog", "choose_files", "plan"]) {
    engine.replies[method] = () => {
      throw broken;
    };
  }
  const { planner, seen } = startPlanner({ engine });
  planner.ask({ model: "org/any" });
  await settled();
  assert.deepEqual(seen.trouble, { message: "WebAssembly is forbidden.", hint: "Allow it." });
  assert.deepEqual(seen.reports, []);
});

test("a text that names no model is said, and the core still answers for the rest", async () => {
  const { planner, seen } = startPlanner({ engine: takingEngine() });
  planner.ask({ model: "https://example.org/model" });
  await settled();
  assert.match(seen.trouble?.message ?? "", /example\.org/);
  assert.equal(seen.reports.at(-1)?.isFinal, true);
});
