/** What `build.py` writes to dist/engine/manifest.js: the names of the engine's files, which change with their content. */

export interface EngineFile {
  /** From the engine's folder, where the manifest lies. */
  readonly path: string;
  /** Size as the browser counts it: not packed by HTTP. */
  readonly bytes: number;
}

export interface EngineManifest {
  readonly versions: Readonly<Record<string, string>>;
  readonly pyodide: {
    readonly loader: EngineFile;
    readonly module: EngineFile;
    readonly wasm: EngineFile;
    readonly stdlib: EngineFile;
    /** `info` of Pyodide's own lock file: what wheels must fit. */
    readonly lockInfo: Readonly<Record<string, string>>;
  };
  readonly oneZip: {
    /** Standard library, packages and core, compiled; stored zip, packed whole with gzip. */
    readonly archive: EngineFile;
    readonly sideModule: EngineFile;
    /** Dotted name of the extension module. */
    readonly sideModuleName: string;
    /** Where Python looks for it. */
    readonly sideModulePath: string;
  };
  readonly packages: {
    readonly installer: EngineFile;
    readonly wheels: readonly EngineFile[];
  };
}

export const manifest: EngineManifest;
