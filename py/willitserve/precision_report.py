"""Number 3 of a report: what a card does with the stored format and with each format of the ladder."""

from willitserve import precision
from willitserve.assess import Assessment, Subject
from willitserve.catalog import Catalog
from willitserve.checkpoint import Checkpoint
from willitserve.identity_memo import IdentityMemo
from willitserve.report import FormatAnswer, PrecisionReport, State
from willitserve.weights import WEIGHT_FORMATS, loaded_bytes, main_format

_sizes: IdentityMemo[Checkpoint, int] = IdentityMemo(4 * len(precision.LADDER))


def _bytes_in(checkpoint: Checkpoint, name: str) -> int:
    """Bytes of the whole model with its block matrices in another format."""
    weight_format = WEIGHT_FORMATS[name]
    return _sizes.get(
        checkpoint,
        name,
        lambda: sum(
            loaded_bytes(group, run_dtype_bits=16, weight_format=weight_format)
            for group in checkpoint.groups
            if group.served
        ),
    )


def precision_report(catalog: Catalog, subject: Subject, plan: Assessment) -> PrecisionReport:
    """What the card does with the checkpoint's format, and with each format of the ladder."""
    gpu = plan.gpu
    stored = main_format(subject.checkpoint)
    in_use = plan.weight_format.name if plan.weight_format else stored
    table_name = precision.STORED_FORMATS.get(in_use)
    if in_use in ("bf16", "f32") and plan.run_dtype == "float16":
        table_name = "fp16"
    answer = precision.answer_for(catalog.formats, table_name or "", gpu.compute_capability)
    row, because = precision.recommend(catalog.formats, gpu)
    natives = [
        entry.label
        for entry in precision.LADDER
        if precision.answer_for(catalog.formats, entry.table_name, gpu.compute_capability) == "native"
    ]
    alternatives: list[FormatAnswer] = []
    for entry in precision.LADDER:
        found = precision.answer_for(catalog.formats, entry.table_name, gpu.compute_capability)
        alternatives.append(
            FormatAnswer(
                format=entry.name,
                label=entry.label,
                support=found,
                sentence=precision.sentence_for(entry, found, card=gpu.name),
                weight_bytes=_bytes_in(subject.checkpoint, entry.name),
            )
        )
    known = any(entry.support != "unknown" for entry in alternatives)
    states: dict[str, State] = {"native": "ok", "weight-only": "ok", "emulated": "tight", "refused": "no"}
    return PrecisionReport(
        checkpoint_format=stored,
        compute_format=in_use if answer == "native" else plan.run_dtype,
        native=None if answer == "unknown" else answer == "native",
        native_formats=natives if known else None,
        recommended=row.name,
        recommended_because=because,
        alternatives=alternatives,
        state="tight" if plan.dtype_change else states.get(answer, "unknown"),
    )
