/**
 * Stands in for the engine's worker where a test looks at the page alone: speaks the protocol and answers with the
 * reports of tests/web/fixtures. A plan is answered by the report whose query has the same model and card; of what the
 * reader changes, the applied query follows.
 * @import { Call, FromWorker, Status } from "../../../web/protocol.js"
 * @import { PlanReport } from "../../../web/report.d.ts"
 */

const NAMES = [
  "serves",
  "fewer-users",
  "does-not-fit",
  "serves-nobody",
  "ambiguous-gpu",
  "unknown-kv",
  "moe",
  "hybrid",
  "draft",
];

/** @type {{ postMessage(message: FromWorker): void } & Pick<EventTarget, "addEventListener">} */
const scope = /** @type {any} */ (globalThis);

/** @type {Promise<PlanReport[]>} */
const reports = Promise.all(NAMES.map(async (name) => (await fetch(`./fixtures/${name}.json`)).json()));

/** @param {Omit<Status, "kind" | "boot">} status */
const tell = (status) => scope.postMessage({ kind: "status", boot: "one-zip", ...status });

async function catalog() {
  const all = await reports;
  /** @type {{ id: string, name: string }[]} */
  const gpus = all.flatMap(({ gpu, choices }) => [...(gpu === null ? [] : [gpu]), ...choices]);
  const cards = new Map(
    gpus.map((gpu) => [
      gpu.id,
      { ...gpu, vendor: "NVIDIA", memory_text: "22.0 GiB", bandwidth_text: "300 GB/s" },
    ]),
  );
  const models = new Map(
    all.map(({ model }) => [
      model.id,
      { id: model.id, name: model.id, revision: model.revision, gated: model.gated },
    ]),
  );
  return {
    gpus: [...cards.values()],
    models: [...models.values()],
    engines: [{ id: "vllm@0.33", name: "vLLM 0.33" }],
    defaults: all[0]?.defaults,
    versions: all[0]?.versions,
  };
}

/** @param {Record<string, string>} query */
async function plan(query) {
  const all = await reports;
  const found = all.find((report) => report.query.model === query.model && report.query.gpu === query.gpu);
  const report = found ?? all.find(({ verdict }) => verdict.code === "unknown");
  return { ...report, query: { ...report?.query, ...query } };
}

/** @param {Call} call */
async function answer({ method, params }) {
  switch (method) {
    case "catalog":
      return catalog();
    case "plan":
      return plan(/** @type {{ query: Record<string, string> }} */ (params).query);
    case "drop":
      return {};
    default:
      throw new TypeError(`the stand-in has no method ${method}`);
  }
}

scope.addEventListener("message", async (event) => {
  const call = /** @type {MessageEvent<Call>} */ (event).data;
  try {
    scope.postMessage({ kind: "result", id: call.id, value: await answer(call) });
  } catch (error) {
    scope.postMessage({ kind: "failure", id: call.id, error: { code: "stand-in", message: String(error) } });
  }
});

tell({ stage: "download", loaded: 3_200_000, total: 6_800_000 });
reports.then(() => tell({ stage: "start" })).then(() => tell({ stage: "ready" }));
