"""The inspector's view of a model: what the checkpoint stores by part and format, and its layers by kind."""

from functools import lru_cache

from willitserve.architecture import Architecture
from willitserve.assess import Subject
from willitserve.checkpoint import Checkpoint
from willitserve.layer_map import layer_map
from willitserve.report import CheckpointReport, Figure
from willitserve.stored_parts import stored_parts


@lru_cache(maxsize=4)
def inspect_subject(
    subject: Subject, kv_dtype_bits: int, kv_dtype: str
) -> tuple[CheckpointReport, dict[str, Figure]]:
    """`inspect_checkpoint` of a subject, kept while the same one is planned with again and again."""
    return inspect_checkpoint(
        subject.architecture, subject.checkpoint, kv_dtype_bits=kv_dtype_bits, kv_dtype=kv_dtype
    )


def inspect_checkpoint(
    architecture: Architecture, checkpoint: Checkpoint, *, kv_dtype_bits: int = 16, kv_dtype: str = "16 bit"
) -> tuple[CheckpointReport, dict[str, Figure]]:
    """The parts and the layers of a model, and the figure of each number in them.

    `kv_dtype_bits` is the width of the KV cache that the layers are described with, `kv_dtype` its name.
    """
    parts, part_figures = stored_parts(checkpoint)
    layers = layer_map(architecture, kv_dtype_bits=kv_dtype_bits, kv_dtype=kv_dtype)
    report = CheckpointReport(
        parts=parts, layer_kinds=layers.kinds, layers=layers.layers, layer_pattern=layers.pattern
    )
    return report, part_figures | layers.figures
