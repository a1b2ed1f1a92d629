/**
 * Wires the parts of the page together: the only file that knows all of them. The page paints from its URL; the engine
 * starts and the Hub is read at the same time; each answer of the core is drawn whole.
 * @import { PlanReport } from "./report.d.ts"
 * @import { Status } from "./protocol.js"
 * @import { State } from "./state.js"
 * @import { Trouble } from "./view/messages.js"
 */

import { engine, followEngine } from "./engine-start.js";
import { NumberFormat } from "./format.js";
import { HUB_ENDPOINT, HubClient } from "./hub.js";
import { ModelFolder } from "./model-folder.js";
import { Planner } from "./planner.js";
import { endpointOf, formatQuery, parseQuery, planQuery, withChanges } from "./state.js";
import { CheckpointStrip } from "./view/checkpoint-strip.js";
import { Controls } from "./view/controls.js";
import { find } from "./view/element.js";
import { inputsContent, NUMBERS, panelContent } from "./view/four-numbers.js";
import { GpuChooser } from "./view/gpu-chooser.js";
import { LayerMap } from "./view/layer-map.js";
import { LoadStatus } from "./view/load-status.js";
import { MemoryBar } from "./view/memory-bar.js";
import { AlertView, NoteList } from "./view/messages.js";
import { Panel } from "./view/panel.js";
import { ShareView } from "./view/share.js";
import { StartupLog } from "./view/startup-log.js";
import { TokenForm } from "./view/token-form.js";
import { VerdictView } from "./view/verdict.js";

/** Browsers refuse a page that rewrites its URL more often than about three times a second. */
const URL_PAUSE_MS = 350;

const root = document.documentElement;
const { signal } = new AbortController();
const format = new NumberFormat();
const byId = (/** @type {string} */ id) => find(document, `#${id}`, HTMLElement);

const link = parseQuery(location.search);
const hasPlan = link.state.model !== undefined || link.state.gpu !== undefined;
/** @type {State} */
let state = hasPlan ? link.state : { ...parseQuery(root.dataset.start ?? "").state, ...link.state };
/** @type {PlanReport | null} */
let report = null;
/** @type {Trouble | null} what keeps the engine from starting */
let engineTrouble = null;
/** @type {Trouble | null} what keeps the model from being read */
let modelTrouble = null;
/** @type {readonly Trouble[]} how the model was read */
let notes = [];
/** @type {string | null} */
let token = null;
/** @type {ModelFolder | null} */
let folder = null;

const isEmbed = state.embed === "1";
const hub = endpointOf(state, HUB_ENDPOINT);

const alert = new AlertView(byId("alert"));
const problems = new NoteList(byId("problems"));
const warnings = new NoteList(byId("warnings"));
const verdict = new VerdictView(document);
const chooser = new GpuChooser(byId("chooser"));
const bar = new MemoryBar(byId("memory-bar"), format, signal);
const numbers = NUMBERS.map((name) => ({ name, panel: new Panel(byId(name), format) }));
const inputs = new Panel(byId("inputs"), format);
const startupLog = new StartupLog(byId("startup"));
const strip = new CheckpointStrip(byId("checkpoint-strip"), format, signal);
const layers = new LayerMap(byId("layer-map"), format, signal);
const loadStatus = new LoadStatus(byId("load-status"), format);
const controls = new Controls(document, format, signal);
const share = new ShareView(byId("share"), () => addressOf(state), signal);
const tokenForm = new TokenForm(find(document, "#token", HTMLDetailsElement), signal);

/** @param {State} of the query of its link, defaults left out */
const queryOf = (of) => formatQuery(of, report?.defaults);
/** @param {State} of */
const addressOf = (of) => new URL(queryOf(of), location.href).href;
/** @param {Readonly<Record<string, string>>} changes */
const linkTo = (changes) => queryOf(withChanges(state, changes));

function paint() {
  if (state.theme !== undefined) root.dataset.theme = state.theme;
  if (isEmbed) root.dataset.embed = "1";
  controls.set(state, {});
  verdict.ask(questionOf(state));
  showProblems();
}

const planner = new Planner({
  engine,
  createHub: () =>
    new HubClient({
      endpoint: hub.endpoint,
      token: hub.takesToken ? token : null,
      onEvent: (event) => {
        if (event.kind === "waiting") loadStatus.model({ stage: "waiting", secondsLeft: event.secondsLeft });
      },
    }),
  // An embed is opened by every reader of a page: it asks the Hub only about models that the catalog does not have.
  readsLive: !isEmbed,
  events: {
    onAnswer: showAnswer,
    onPending: () => {
      root.dataset.answer = "pending";
    },
    onTrouble: (found) => {
      modelTrouble = found;
      showTrouble();
    },
    onNotes: (found) => {
      notes = found;
      showWarnings();
    },
    onProgress: (progress) => loadStatus.model(progress),
    onGated: (gated) =>
      tokenForm.update({ wanted: gated, host: new URL(hub.endpoint).host, taken: hub.takesToken }),
  },
  signal,
});

/** @param {Status} status */
function showEngine({ stage, boot, loaded = 0, total = 0, error }) {
  root.dataset.engine = stage;
  root.dataset.boot = boot;
  loadStatus.engine({ stage, loaded, total });
  engineTrouble = error ?? null;
  showTrouble();
}

function showTrouble() {
  const trouble = engineTrouble ?? modelTrouble;
  alert.update(trouble);
  if (trouble !== null) root.dataset.answer = "error";
}

/**
 * @param {PlanReport} answer
 * @param {boolean} isFinal
 */
function showAnswer(answer, isFinal) {
  report = answer;
  byId("plan-report").textContent = JSON.stringify(answer);
  const isPlan = Object.keys(answer.figures).some((key) => key.startsWith("memory."));
  byId("memory-bar").hidden = answer.memory === null;
  byId("numbers").hidden = !isPlan;
  verdict.update(answer, linkTo);
  chooser.update(answer.choices, linkTo);
  bar.update(answer);
  for (const { name, panel } of numbers) panel.update(panelContent(name, answer));
  inputs.update(inputsContent(answer));
  startupLog.update(answer.startup_log);
  showCheckpoint(answer);
  controls.setReport(answer, asked());
  share.update(answer.model, state.model ?? "");
  showProblems();
  showWarnings();
  byId("versions").textContent = Object.entries(answer.versions)
    .map(([name, version]) => `${name} ${version}`)
    .join(" · ");
  find(document, "#whole-page", HTMLAnchorElement).href = linkTo({ embed: "" });
  document.title = `${answer.verdict.sentence} Will it serve?`;
  root.dataset.answer = modelTrouble !== null ? "error" : isFinal ? "ready" : "pending";
}

/** @param {PlanReport} answer */
function showCheckpoint(answer) {
  const section = byId("layers");
  const isNew = section.hidden && answer.checkpoint !== null;
  section.hidden = answer.checkpoint === null;
  strip.update(answer);
  layers.update(answer);
  // The browser looked for the section of the link before there was an answer in it.
  if (isNew && location.hash === `#${section.id}`) section.scrollIntoView();
}

function showProblems() {
  const found = [...link.problems, ...(report?.problems ?? [])];
  problems.update(found.map(({ sentence }) => ({ message: sentence })));
}

function showWarnings() {
  const found = (report?.warnings ?? []).map(({ sentence }) => ({ message: sentence }));
  const elsewhere = `This link reads models from ${new URL(hub.endpoint).host}, not from the Hugging Face Hub.`;
  const local = "The model was read from a folder on this computer: no link can carry it.";
  warnings.update([
    ...(state.endpoint === undefined ? [] : [{ message: elsewhere }]),
    ...found,
    ...(folder === null ? [] : [{ message: local, quiet: true }]),
    ...notes,
  ]);
}

/** @param {State} asked */
function questionOf({ model, gpu, users, context }) {
  if (model === undefined || gpu === undefined) return "Which model, on which card?";
  const load = [
    users === undefined ? "" : `${users} users`,
    context === undefined ? "" : `${context} tokens`,
  ].filter((part) => part !== "");
  return `Will ${model} serve ${load.length > 0 ? `${load.join(" at ")} ` : ""}on ${gpu}?`;
}

/** What is planned: a folder stands in for the model, and is in no link. */
const asked = () => (folder === null ? state : { ...state, model: folder.name });

/** @type {ReturnType<typeof setTimeout> | undefined} */
let urlTimer;

/**
 * @param {State} next
 * @param {ModelFolder | null} nextFolder
 */
function change(next, nextFolder) {
  const isSameModel = next.model === state.model && nextFolder === folder;
  state = next;
  folder = nextFolder;
  link.problems.length = 0;
  // What the core decided stands until it answers anew; a model that was taken out does not come back.
  controls.set(asked(), { ...report?.query, model: "" });
  if (!isSameModel) verdict.ask(questionOf(asked()));
  planner.ask(planQuery(asked()), folder);
  clearTimeout(urlTimer);
  urlTimer = setTimeout(() => history.replaceState(null, "", queryOf(state)), URL_PAUSE_MS);
}

/** @param {State} next a state that names a model puts it in place of the folder */
const changePlan = (next) => change(next, next.model === undefined ? folder : null);

/** @param {MouseEvent} event a click that would not open a tab or a window of its own */
const isPlainClick = ({ button, metaKey, ctrlKey, shiftKey, altKey }) =>
  button === 0 && !metaKey && !ctrlKey && !shiftKey && !altKey;

/**
 * @template Detail
 * @param {string} type of an event that a view emits
 * @param {(detail: Detail) => void} handle
 */
function on(type, handle) {
  document.addEventListener(type, (event) => handle(/** @type {CustomEvent<Detail>} */ (event).detail), {
    signal,
  });
}

on("plan-change", (/** @type {Record<string, string>} */ changes) => changePlan(withChanges(state, changes)));
on("folder", (/** @type {File[]} */ files) =>
  change(withChanges(state, { model: "" }), new ModelFolder(files)),
);
on("token", (/** @type {string | null} */ given) => {
  token = given;
  planner.reload();
});
document.addEventListener(
  "click",
  (event) => {
    const anchor = event.target instanceof Element ? event.target.closest("a[data-apply]") : null;
    if (!(anchor instanceof HTMLAnchorElement) || !isPlainClick(event)) return;
    event.preventDefault();
    changePlan(parseQuery(anchor.search).state);
  },
  { signal },
);

if (isEmbed && parent !== window) {
  new ResizeObserver(() => {
    const { height } = document.body.getBoundingClientRect();
    parent.postMessage({ kind: "will-it-serve:height", height }, "*");
  }).observe(document.body);
}

paint();
followEngine(showEngine);
planner.ask(planQuery(state));
planner.catalog.then((catalog) => controls.setCatalog(catalog)).catch(() => {});
