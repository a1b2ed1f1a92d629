/** What crosses from the core to the page: the types of `py/willitserve/report.py`, field for field. */

export type Basis = "exact" | "derived" | "estimated" | "assumed" | "unknown";
export type VerdictCode =
  | "serves"
  | "serves-with-changes"
  | "context-too-long"
  | "serves-nobody"
  | "does-not-fit"
  | "will-not-start"
  | "unknown";
export type State = "ok" | "tight" | "no" | "unknown";

export interface Figure {
  label: string;
  value: number | null;
  unit: string;
  digits: number;
  basis: Basis;
  low: number | null;
  high: number | null;
  arithmetic: string;
  because: string;
  source: string;
  check: string;
}

export interface Verdict {
  code: VerdictCode;
  sentence: string;
}

export interface Note {
  code: string;
  sentence: string;
}

export interface Problem {
  field: string;
  code: string;
  sentence: string;
}

export interface WayOut {
  sentence: string;
  query: Record<string, string>;
  code: VerdictCode;
}

export interface RejectedTp {
  tp: number;
  rule: string;
  reason: string;
}

export type SegmentKey = "weights" | "overhead" | "kv_used" | "kv_free" | "outside" | "unusable";

export interface BarSegment {
  key: SegmentKey;
  label: string;
  bytes: number;
  ratio: number;
}

export interface MemoryReport {
  gpu_total_bytes: number | null;
  requested_bytes: number | null;
  weight_bytes_per_gpu: number | null;
  activation_bytes_per_gpu: number | null;
  non_torch_bytes_per_gpu: number | null;
  cuda_graph_bytes_per_gpu: number | null;
  kv_cache_bytes_per_gpu: number | null;
  kv_bytes_per_token_per_gpu: number | null;
  kv_fixed_bytes_per_sequence_per_gpu: number | null;
  num_gpu_blocks: number | null;
  kv_cache_tokens: number | null;
  max_concurrency: number | null;
  needed_kv_bytes_per_gpu: number | null;
  estimated_max_model_len: number | null;
  max_users: number | null;
  kv_cache_dtype: string;
  state: State;
  bar: BarSegment[];
}

export interface BandwidthReport {
  decode_tokens_per_s_ceiling: number | null;
  decode_tokens_per_s_low: number | null;
  decode_tokens_per_s_high: number | null;
  aggregate_tokens_per_s_ceiling: number | null;
  one_user_tokens_per_s_ceiling: number | null;
  ttft_s_low: number | null;
  ttft_s_high: number | null;
  state: State;
}

export interface FormatAnswer {
  format: string;
  label: string;
  support: "native" | "weight-only" | "emulated" | "refused" | "unknown";
  sentence: string;
  weight_bytes: number | null;
}

export interface PrecisionReport {
  checkpoint_format: string;
  compute_format: string;
  native: boolean | null;
  native_formats: string[] | null;
  recommended: string;
  recommended_because: string;
  alternatives: FormatAnswer[];
  state: State;
}

export interface ScalingReport {
  tp: number;
  pp: number;
  replicas: number | null;
  gpus_per_replica: number;
  valid_tp: number[];
  rejected_tp: RejectedTp[];
  nvlink_domain: number | null;
  state: State;
}

export interface ModelFacts {
  id: string;
  revision: string | null;
  source: "catalog" | "hub" | "folder" | "hub-totals" | "none";
  source_sentence: string;
  architecture: string | null;
  gated: boolean | null;
  num_params: number | null;
  num_active_params: number | null;
  weight_bytes: number | null;
  quantization: string | null;
  max_model_len: number | null;
  not_understood: string[];
}

export interface GpuFacts {
  id: string;
  name: string;
  memory_bytes: number | null;
  bandwidth_bytes_per_s: number | null;
  namesakes: Note[];
  notes: string[];
}

export interface GpuChoice {
  id: string;
  name: string;
  sentence: string;
  code: VerdictCode;
}

export type PartName =
  | "embedding"
  | "attention"
  | "state"
  | "dense_mlp"
  | "routed_expert"
  | "shared_expert"
  | "router"
  | "norm"
  | "output_head"
  | "vision"
  | "audio"
  | "other"
  | "draft"
  | "buffer";

export interface CheckpointPart {
  part: PartName;
  label: string;
  format: string;
  format_label: string;
  bits: number | null;
  bytes: number;
  num_params: number | null;
  ratio: number;
  served: boolean;
  bytes_figure: string;
  params_figure: string;
}

export type CacheShape =
  | "full"
  | "window"
  | "chunk"
  | "latent"
  | "indexer"
  | "compressed"
  | "state"
  | "cross"
  | "shared"
  | "mixed"
  | "none";

export interface LayerKind {
  shape: CacheShape;
  ffn: "dense" | "moe" | "none";
  label: string;
  count: number;
  layers: string;
  note: string;
  figures: string[];
}

export interface CheckpointReport {
  parts: CheckpointPart[];
  layer_kinds: LayerKind[];
  layers: number[];
  layer_pattern: string;
}

export interface PlanReport {
  verdict: Verdict;
  model: ModelFacts;
  gpu: GpuFacts | null;
  engine: string;
  query: Record<string, string>;
  defaults: Record<string, string>;
  memory: MemoryReport | null;
  bandwidth: BandwidthReport | null;
  precision: PrecisionReport | null;
  scaling: ScalingReport | null;
  checkpoint: CheckpointReport | null;
  figures: Record<string, Figure>;
  startup_log: string[];
  warnings: Note[];
  ways_out: WayOut[];
  problems: Problem[];
  choices: GpuChoice[];
  versions: Record<string, string>;
}

/** The core's `catalog` reply. */
export interface Catalog {
  gpus: { id: string; name: string; vendor: string; memory_text: string; bandwidth_text: string }[];
  models: { id: string; revision: string | null; gated: boolean | null }[];
  engines: { id: string; name: string }[];
  defaults: Record<string, string>;
  versions: Record<string, string>;
}
