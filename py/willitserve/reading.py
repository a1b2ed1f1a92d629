"""From what was read (config.json, headers, a catalog entry, totals of the Hub) to a model that can be
planned with."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from willitserve.agreement import disagreements
from willitserve.architecture import Architecture
from willitserve.assess import Subject
from willitserve.checkpoint import Checkpoint, CheckpointBuilder
from willitserve.config import describe, read_config
from willitserve.errors import ConfigError, HeaderError, WillItServeError
from willitserve.figures import gib
from willitserve.inspection import inspect_checkpoint
from willitserve.kv_cache import kv_bytes_per_token, kv_fixed_bytes_per_sequence
from willitserve.model_entry import ModelEntry
from willitserve.plan import Model
from willitserve.report import InspectReport, ModelFacts, SourceName
from willitserve.safetensors import Header, lay_out, parse_header
from willitserve.scaling import ShardedQuantization, valid_tp
from willitserve.units import GB
from willitserve.weights import FLOAT_FORMATS


def headers_text(count: int) -> str:
    """`1 header`, `4 headers`."""
    return f"{count:,} header" if count == 1 else f"{count:,} headers"


def sharded_quantization(checkpoint: Checkpoint) -> ShardedQuantization | None:
    """What the divisibility rules of quantized kernels need to know; None for an unquantized checkpoint."""
    if checkpoint.quantization_method is None:
        return None
    quantized = {
        group.part
        for group in checkpoint.groups
        if group.served and group.num_params and group.format not in FLOAT_FORMATS
    }
    return ShardedQuantization(
        method=checkpoint.quantization_method,
        block=checkpoint.weight_block,
        group_size=checkpoint.group_size,
        parts=frozenset(quantized),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HubTotals:
    """What the Hub's model info says without any file: enough for a rough answer about a gated repository."""

    model_id: str
    revision: str | None
    gated: bool
    file_bytes: int | None
    """Sizes of the weight files together."""
    parameters: dict[str, int]
    """Elements by dtype, as the Hub counts them: scales and packed values are in it as stored."""


@dataclass(slots=True, kw_only=True)
class OpenCheckpoint:
    """A checkpoint while its headers arrive; nothing but folded groups is kept of them."""

    model_id: str
    revision: str | None
    source: SourceName
    source_sentence: str
    gated: bool | None = False
    config: Mapping[str, object] | None = None
    config_error: WillItServeError | None = None
    hf_quant_config: Mapping[str, object] | None = None
    expected: frozenset[str] = frozenset()
    """Names of the files to be read."""
    read: set[str] = field(default_factory=set)
    builder: CheckpointBuilder = field(default_factory=CheckpointBuilder)

    def set_config(self, text: str | None) -> None:
        """Read config.json; what is wrong with it is kept and told with the answer."""
        if text is None:
            self.config_error = ConfigError(
                "There is no config.json beside the weights.", hint="Add it to the folder."
            )
            return
        try:
            self.config = read_config(text)
        except ConfigError as error:
            self.config_error = error

    def set_hf_quant_config(self, text: str) -> None:
        """Read the sidecar in which ModelOpt keeps its format; a broken one leaves the format unknown, which
        is told."""
        try:
            self.hf_quant_config = read_config(text)
        except ConfigError as error:
            self.config_error = ConfigError(f"hf_quant_config.json: {error.message}", hint=error.hint)
            self.config = None

    def add(self, file_name: str, data: bytes, *, file_size: int | None) -> int:
        """Check and fold one header; the number of its tensors. HeaderError names the file."""
        try:
            header = parse_header(data, file_size=file_size)
        except HeaderError as error:
            raise HeaderError(f"{file_name}: {error.message}", hint=error.hint) from error
        self.builder.add(file_name, header)
        self.read.add(file_name)
        return len(header.tensors)

    def add_header(self, file_name: str, header: Header) -> None:
        """Fold tensors that come from no file."""
        self.builder.add(file_name, header)
        self.read.add(file_name)

    def finish(self) -> Model:
        """The model as far as it is understood."""
        missing = sorted(self.expected - self.read)
        if missing:
            sentence = (
                f"{len(self.read)} of {len(self.expected)} weight files are read; {missing[0]} is missing."
            )
            return self._half(sentence)
        if self.config is None:
            error = self.config_error or ConfigError("config.json was not read.")
            return self._half(error.sentence)
        try:
            architecture = describe(self.config)
            checkpoint = self.builder.finish(
                architecture=architecture, config=self.config, hf_quant_config=self.hf_quant_config
            )
        except WillItServeError as error:
            return self._half(error.sentence)
        contradictions = tuple(
            f"{text}: not the same model." for text in disagreements(architecture, checkpoint)
        )
        facts = ModelFacts(
            id=self.model_id,
            revision=self.revision,
            source=self.source,
            source_sentence=self.source_sentence,
            architecture=architecture.name,
            gated=self.gated,
            num_params=checkpoint.num_params,
            num_active_params=checkpoint.num_active_params,
            weight_bytes=checkpoint.stored_bytes,
            quantization=checkpoint.quantization,
            max_model_len=architecture.max_model_len,
            not_understood=[*contradictions, *architecture.not_understood, *checkpoint.not_understood],
        )
        subject = Subject(
            architecture=architecture, checkpoint=checkpoint, quantization=sharded_quantization(checkpoint)
        )
        return Model(facts=facts, subject=subject, withheld=(*contradictions, *architecture.kv_withheld))

    def _half(self, sentence: str) -> Model:
        stored = self.builder.stored_bytes
        if stored:
            sentence += f" The headers read so far hold {stored / GB:,.2f} GB of weights."
        return _told_only(
            self.model_id,
            sentence,
            source=self.source,
            revision=self.revision,
            gated=self.gated,
            weight_bytes=stored or None,
        )


def from_catalog(entry: ModelEntry, asked_id: str) -> Model:
    """The model of a catalog entry, through the same code that live headers take."""
    revision = entry.revision
    at = f" at {revision[:7]}" if revision else ""
    opened = OpenCheckpoint(
        model_id=asked_id,
        revision=revision,
        source="catalog",
        source_sentence=f"From the catalog{at} ({entry.basis}); the files were not read.",
        gated=entry.gated_as(asked_id),
        config=entry.config,
    )
    opened.add_header("catalog", lay_out(entry.expand()))
    return opened.finish()


def from_totals(totals: HubTotals) -> Model:
    """A gated or unreadable repository: what its listing tells, and no more."""
    counted = sum(totals.parameters.values())
    told: list[str] = []
    if totals.file_bytes is not None:
        told.append(f"{totals.file_bytes / GB:,.2f} GB ({gib(totals.file_bytes)}) of weight files")
    if counted:
        kinds = ", ".join(f"{dtype} {count / 1e9:,.2f} B" for dtype, count in totals.parameters.items())
        told.append(f"{counted / 1e9:,.2f} B stored values ({kinds})")
    listing = " and ".join(told) or "no sizes"
    why = "is gated: its files need a licence and a token" if totals.gated else "could not be read"
    return _told_only(
        totals.model_id,
        f"{totals.model_id} {why}. The Hub’s listing gives {listing}; the rest is withheld.",
        source="hub-totals",
        revision=totals.revision,
        gated=totals.gated,
        weight_bytes=totals.file_bytes,
    )


def no_model(sentence: str, *, model_id: str = "") -> Model:
    """Nothing was read; the sentence says what to do."""
    return _told_only(model_id, sentence, source="none")


def _told_only(
    model_id: str,
    sentence: str,
    *,
    source: SourceName,
    revision: str | None = None,
    gated: bool | None = False,
    weight_bytes: int | None = None,
) -> Model:
    """A model of which no architecture is known: the sentence says why, and what is still true."""
    facts = ModelFacts(
        id=model_id,
        revision=revision,
        source=source,
        source_sentence=sentence,
        architecture=None,
        gated=gated,
        num_params=None,
        num_active_params=None,
        weight_bytes=weight_bytes,
        quantization=None,
        max_model_len=None,
        not_understood=[],
    )
    return Model(facts=facts, subject=None)


def inspect(model: Model) -> InspectReport | None:
    """What the precise calculator knows of a model, before any GPU is named; None when it was not understood
    at all."""
    subject = model.subject
    if subject is None:
        return None
    return inspect_parts(model.facts.id, subject.architecture, subject.checkpoint, subject.quantization)


def inspect_parts(
    model_id: str,
    architecture: Architecture,
    checkpoint: Checkpoint,
    quantization: ShardedQuantization | None,
) -> InspectReport:
    """The inspector's report. Cache figures are of the whole model at TP 1 with a 16-bit KV cache."""
    per_token = fixed = None
    if not architecture.kv_withheld:
        per_token = kv_bytes_per_token(architecture, kv_dtype_bits=16)
        fixed = kv_fixed_bytes_per_sequence(architecture, kv_dtype_bits=16)
    valid, rejected = valid_tp(architecture, quantization=quantization)
    longest = architecture.max_model_len
    at_longest = None
    if longest is not None and per_token is not None and fixed is not None:
        at_longest = per_token * longest + fixed
    return InspectReport(
        model_id=model_id,
        architecture=architecture.name,
        num_params=checkpoint.num_params,
        num_active_params=checkpoint.num_active_params,
        num_draft_params=checkpoint.num_draft_params,
        weight_bytes=checkpoint.stored_bytes,
        bytes_per_param=round(checkpoint.stored_bytes / checkpoint.num_params, 4)
        if checkpoint.num_params
        else None,
        quantization=checkpoint.quantization,
        formats=checkpoint.formats,
        kv_bytes_per_token=per_token,
        kv_fixed_bytes_per_sequence=fixed,
        max_model_len=longest,
        kv_bytes_at_max_model_len=at_longest,
        valid_tp=valid,
        rejected_tp=rejected,
        not_understood=[*architecture.not_understood, *checkpoint.not_understood],
        checkpoint=inspect_checkpoint(architecture, checkpoint)[0],
    )
