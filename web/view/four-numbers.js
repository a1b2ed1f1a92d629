/**
 * What each of the four panels shows of a report, in which order: the choice of lines is here, the drawing in panel.js.
 * @import { GpuFacts, PlanReport, State } from "../report.d.ts"
 * @import { FactLine, FigureLine, Line, PanelContent } from "./panel.js"
 */

import { unreachable } from "../protocol.js";

/** @typedef {"memory" | "bandwidth" | "precision" | "scaling"} NumberName */
/** @typedef {Pick<PanelContent, "headline" | "lines" | "more">} Content */

export const NUMBERS = /** @type {const} */ (["memory", "bandwidth", "precision", "scaling"]);

/** Figures that can be the large one, best first: the first that is known is taken, else the first that is there. */
const HEADLINES = {
  memory: ["memory.max_users", "memory.kv_cache_bytes_per_gpu", "memory.weight_bytes_per_gpu"],
  bandwidth: ["bandwidth.decode_tokens_per_s_low", "bandwidth.decode_tokens_per_s_ceiling"],
};

/** Figures that stand open on the first screen. */
const LINES = {
  memory: [
    "memory.weight_bytes_per_gpu",
    "memory.kv_cache_bytes_per_gpu",
    "memory.needed_kv_bytes_per_gpu",
    "memory.kv_bytes_per_token_per_gpu",
    "memory.kv_cache_tokens",
  ],
  bandwidth: [
    "bandwidth.decode_tokens_per_s_ceiling",
    "bandwidth.one_user_tokens_per_s_ceiling",
    "bandwidth.aggregate_tokens_per_s_ceiling",
    "bandwidth.ttft_s_low",
  ],
};

/** Parts of the memory bar: the bar itself shows them. */
export const BAR_PREFIX = "memory.bar.";

/**
 * @param {NumberName} name
 * @param {PlanReport} report
 * @returns {PanelContent}
 */
export function panelContent(name, report) {
  const state = report[name]?.state ?? "unknown";
  const word = stateWord(name, report);
  switch (name) {
    case "memory":
    case "bandwidth":
      return { state, word, ...figureContent(name, report) };
    case "precision":
      return { state, word, ...precisionContent(report) };
    case "scaling":
      return { state, word, ...scalingContent(report) };
    default:
      return unreachable(name, "number of an unknown kind");
  }
}

/**
 * The inputs: what was read of the model and the card.
 * @param {PlanReport} report
 * @returns {PanelContent}
 */
export function inputsContent({ model, gpu, engine, figures }) {
  const revision = model.revision === null ? "" : ` @ ${model.revision.slice(0, 7)}`;
  const lines = [
    fact("model", "Model", model.id + revision),
    fact("architecture", "Architecture", model.architecture, model.not_understood),
    fact("quantization", "Quantization", model.quantization),
    ...figuresUnder("model.", figures),
    fact("gpu", "Card", gpu?.name ?? null, gpu === null ? [] : cardNotes(gpu)),
    ...figuresUnder("gpu.", figures),
    fact("engine", "Engine", engine),
  ];
  return { state: null, word: "", headline: null, lines: present(lines), more: [] };
}

/**
 * How firm the card's figures are, and which other cards go by the same name.
 * @param {GpuFacts} gpu
 */
function cardNotes({ notes, namesakes }) {
  return [...notes, ...namesakes.map(({ sentence }) => `Not to be confused with ${sentence}`)];
}

/**
 * The state of a number in words.
 * @param {NumberName} name
 * @param {PlanReport} report
 */
function stateWord(name, report) {
  /** @type {State} */
  const state = report[name]?.state ?? "unknown";
  if (name === "memory") return { ok: "fits", tight: "tight", no: "no room", unknown: "unknown" }[state];
  const native = report.precision?.native ?? null;
  if (name === "precision" && state !== "no" && native !== null) return native ? "native" : "not native";
  return state;
}

/**
 * @param {keyof typeof LINES} name
 * @param {PlanReport} report
 * @returns {Content}
 */
function figureContent(name, { figures }) {
  const all = figuresUnder(`${name}.`, figures).filter(({ key }) => !key.startsWith(BAR_PREFIX));
  const named = (/** @type {readonly string[]} */ keys) =>
    keys.flatMap((key) => all.filter((line) => line.key === key));
  const candidates = named(HEADLINES[name]);
  const headline = candidates.find(({ figure }) => figure.value !== null) ?? candidates[0] ?? all[0] ?? null;
  const lines = named(LINES[name]).filter((line) => line !== headline);
  return { headline, lines, more: all.filter((line) => line !== headline && !lines.includes(line)) };
}

/** @param {PlanReport} report @returns {Content} */
function precisionContent({ precision, figures }) {
  if (precision === null) return { headline: null, lines: [], more: [] };
  const { alternatives, recommended_because } = precision;
  const labelOf = (/** @type {string} */ name) =>
    alternatives.find(({ format }) => format === name)?.label ?? name;
  const native = precision.native_formats?.join(" ") ?? "not known";
  const lines = [
    fact("checkpoint", "Checkpoint", labelOf(precision.checkpoint_format)),
    fact("native", "Native on this card", native === "" ? "none" : native),
    fact("recommended", "Best for this card", labelOf(precision.recommended), [recommended_because]),
  ];
  const choices = alternatives.map(({ format, label, support, sentence }) =>
    fact(format, label, support, [sentence]),
  );
  return {
    headline: fact("compute", "what the card multiplies", labelOf(precision.compute_format)),
    lines: present(lines),
    more: [...present(choices), ...figuresUnder("precision.", figures)],
  };
}

/** @param {PlanReport} report @returns {Content} */
function scalingContent({ scaling, figures }) {
  if (scaling === null) return { headline: null, lines: [], more: [] };
  const { tp, pp, replicas, gpus_per_replica, valid_tp, rejected_tp, nvlink_domain } = scaling;
  const crashes = rejected_tp.map((each) => String(each.tp)).join(" ");
  const lines = [
    fact("valid_tp", "Widths that start", valid_tp.join(" ")),
    fact(
      "rejected_tp",
      "Widths that crash",
      crashes,
      rejected_tp.map((each) => `TP ${each.tp}: ${each.reason}`),
    ),
    fact(
      "nvlink",
      "Cards that share a fast link",
      nvlink_domain === null ? "not known" : String(nvlink_domain),
    ),
    fact("gpus", "Cards per replica", String(gpus_per_replica)),
    fact("replicas", "Replicas for these users", replicas === null ? "not known" : String(replicas)),
  ];
  return {
    headline: fact(
      "tp",
      pp === 1 ? "tensor parallel" : "tensor and pipeline parallel",
      pp === 1 ? `TP ${tp}` : `TP ${tp} PP ${pp}`,
    ),
    lines: present(lines),
    more: figuresUnder("scaling.", figures),
  };
}

/**
 * @param {string} prefix
 * @param {PlanReport["figures"]} figures
 * @returns {FigureLine[]}
 */
function figuresUnder(prefix, figures) {
  return Object.entries(figures)
    .filter(([key]) => key.startsWith(prefix))
    .map(([key, figure]) => ({ kind: "figure", key, figure }));
}

/**
 * @param {string} key
 * @param {string} label
 * @param {string | null} text null: nothing is said about it
 * @param {readonly string[]} [notes]
 * @returns {FactLine | null}
 */
function fact(key, label, text, notes = []) {
  if (text === null || text === "") return null;
  return { kind: "fact", key, label, text, notes: notes.filter((note) => note !== "") };
}

/** @param {readonly (Line | null)[]} lines @returns {Line[]} */
function present(lines) {
  return lines.filter((line) => line !== null);
}
