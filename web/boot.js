/**
 * The ways to start Python in a worker. Each gives an Engine, the door to the planning core; engine-client.js
 * tries them in the order of BOOT_ORDER (protocol.js). A further way is one more function in BOOTS.
 *
 * @import { PyodideAPI } from "pyodide"
 * @import { PyProxy } from "pyodide/ffi"
 * @import { Downloads } from "./downloads.js"
 * @import { EngineFile, EngineManifest } from "./engine/manifest.js"
 * @import { BootName } from "./protocol.js"
 *
 * @typedef {NonNullable<Parameters<typeof import("pyodide").loadPyodide>[0]>} PyodideConfig
 * @typedef {NonNullable<PyodideConfig["createPyodideModule"]>} CreateModule
 * @typedef {{ loadPyodide: typeof import("pyodide").loadPyodide }} LoaderScript
 * @typedef {{ default: CreateModule }} ModuleScript
 *
 * @typedef {object} Engine
 * @property {(text: string, payload?: ArrayBuffer) => string} call `willitserve.api.handle`
 *
 * @typedef {object} BootContext
 * @property {EngineManifest} manifest
 * @property {Downloads} downloads
 *
 * @typedef {object} Boot
 * @property {(manifest: EngineManifest) => EngineFile[]} files
 * @property {(context: BootContext) => Promise<Engine>} start
 *
 * @typedef {object} SideModule a compiled extension module of Python
 * @property {Promise<WebAssembly.Module>} compiled
 * @property {string} name dotted name
 * @property {string} path where Python looks for it
 *
 * @typedef {object} EmscriptenModule the few parts of Emscripten's module object that linking needs
 * @property {(name: string) => void} addRunDependency
 * @property {(name: string) => void} removeRunDependency
 * @property {(module: WebAssembly.Module, flags: object, path: string, scope: object) => Promise<object>} loadWebAssemblyModule
 * @property {Record<string, object>} preloadedWasm
 * @property {{ mkdirTree(path: string): void, writeFile(path: string, text: string): void }} FS
 */

/** Pyodide's own name of its WebAssembly file; the manifest has the published one. */
const WASM_NAME = "pyodide.asm.wasm";
const ARCHIVE_NAME = "one.zip";
const STDLIB_NAME = "python_stdlib.zip";

/**
 * Starts Python from one archive that holds the standard library, the packages and the core, all compiled, with
 * the extension module linked beside it. Runs in a worker, and under Node when the archive is checked.
 *
 * @param {object} options
 * @param {LoaderScript["loadPyodide"]} options.loadPyodide
 * @param {CreateModule} options.createModule
 * @param {PyodideConfig} options.config
 * @param {SideModule} options.sideModule
 * @returns {Promise<PyodideAPI>}
 */
export async function startFromArchive({ loadPyodide, createModule, config, sideModule }) {
  /** @type {(reason: unknown) => void} */
  let failLink = () => {};
  /** @type {Promise<never>} */
  const linkFailed = new Promise((_, reject) => {
    failLink = reject;
  });
  const createPyodideModule = /** @type {CreateModule} */ (
    (settings) => {
      /** @param {unknown} module */
      const link = (module) => {
        linkSideModule(/** @type {EmscriptenModule} */ (module), sideModule).catch(failLink);
      };
      return createModule({ ...settings, preRun: [settings.preRun ?? [], link].flat() });
    }
  );
  const pyodide = await Promise.race([loadPyodide({ ...config, createPyodideModule }), linkFailed]);
  const door = pyodide.pyimport("engine_door");
  try {
    door.link(sideModule.name, sideModule.path);
  } finally {
    door.destroy();
  }
  return pyodide;
}

/**
 * Links the extension module while the interpreter is still being set up, so that Python finds it loaded: the
 * streamed compilation then overlaps with everything else, and no copy of the file goes through Python.
 *
 * @param {EmscriptenModule} module
 * @param {SideModule} sideModule
 */
async function linkSideModule(module, { compiled, path }) {
  const dependency = "side-module";
  module.addRunDependency(dependency);
  const flags = { loadAsync: true, nodelete: true, allowUndefined: true };
  module.preloadedWasm[path] = await module.loadWebAssemblyModule(await compiled, flags, path, {});
  module.FS.mkdirTree(path.slice(0, path.lastIndexOf("/")));
  // Python's importer wants to see a file there; the loader then takes the one that is already linked.
  module.FS.writeFile(path, "");
  module.removeRunDependency(dependency);
}

/**
 * @param {PyodideAPI} pyodide with `engine_door` and the core on its path
 * @returns {Engine}
 */
export function openEngine(pyodide) {
  const door = pyodide.pyimport("engine_door");
  const handle = /** @type {PyProxy & ((text: string, bytes?: Uint8Array) => string)} */ (door.open_core());
  door.destroy();
  return { call: (text, payload) => handle(text, payload && new Uint8Array(payload)) };
}

/**
 * @param {EngineManifest} manifest
 * @param {Downloads} downloads
 * @returns {PyodideConfig} without the standard library
 */
function pyodideConfig({ pyodide }, downloads) {
  return {
    indexURL: downloads.url({ path: "./", bytes: 0 }).href,
    lockFileContents: /** @type {any} */ ({ info: pyodide.lockInfo, packages: {} }),
    packageBaseUrl: downloads.url({ path: "./", bytes: 0 }).href,
  };
}

/**
 * @param {EngineManifest} manifest
 * @param {Downloads} downloads
 */
async function importPyodide({ pyodide }, downloads) {
  const wasm = downloads.start(pyodide.wasm);
  downloads.answer(WASM_NAME, () => wasm);
  const [loader, module] = await Promise.all([
    /** @type {Promise<LoaderScript>} */ (downloads.importScript(pyodide.loader)),
    /** @type {Promise<ModuleScript>} */ (downloads.importScript(pyodide.module)),
  ]);
  return { loadPyodide: loader.loadPyodide, createModule: module.default };
}

/** @type {Boot} */
const oneZip = {
  files: ({ pyodide, oneZip }) => [
    pyodide.loader,
    pyodide.module,
    pyodide.wasm,
    oneZip.archive,
    oneZip.sideModule,
  ],
  async start({ manifest, downloads }) {
    const { archive, sideModule, sideModuleName, sideModulePath } = manifest.oneZip;
    const compiled = WebAssembly.compileStreaming(downloads.start(sideModule));
    compiled.catch((cause) => downloads.fail(cause));
    const unpacked = downloads.startGzip(archive);
    downloads.answer(ARCHIVE_NAME, () => unpacked);
    const scripts = await importPyodide(manifest, downloads);
    const pyodide = await startFromArchive({
      ...scripts,
      config: {
        ...pyodideConfig(manifest, downloads),
        stdLibURL: downloads.url({ path: ARCHIVE_NAME, bytes: 0 }).href,
      },
      sideModule: { compiled, name: sideModuleName, path: sideModulePath },
    });
    return openEngine(pyodide);
  },
};

/** @type {Boot} Pyodide as it is published, and its own installer: slower, with nothing of ours to go wrong. */
const packages = {
  files: ({ pyodide, packages }) => [
    pyodide.loader,
    pyodide.module,
    pyodide.wasm,
    pyodide.stdlib,
    packages.installer,
    ...packages.wheels,
  ],
  async start({ manifest, downloads }) {
    const { installer, wheels } = manifest.packages;
    for (const file of [installer, ...wheels]) {
      const response = downloads.start(file);
      downloads.answer(file.path, () => response);
    }
    const stdlib = downloads.start(manifest.pyodide.stdlib);
    downloads.answer(STDLIB_NAME, () => stdlib);
    const { loadPyodide, createModule } = await importPyodide(manifest, downloads);
    const pyodide = await loadPyodide({
      ...pyodideConfig(manifest, downloads),
      createPyodideModule: createModule,
      stdLibURL: downloads.url({ path: STDLIB_NAME, bytes: 0 }).href,
    });
    // The wheels' hashes were checked when the site was built; without them Pyodide would warn of each.
    await pyodide.loadPackage(downloads.url(installer).href, { checkIntegrity: false, messageCallback() {} });
    const micropip = pyodide.pyimport("micropip");
    const urls = pyodide.toPy(wheels.map((wheel) => downloads.url(wheel).href));
    await micropip.install.callKwargs(urls, { deps: false });
    urls.destroy();
    micropip.destroy();
    return openEngine(pyodide);
  },
};

/** @type {Record<BootName, Boot>} */
export const BOOTS = { "one-zip": oneZip, packages };
