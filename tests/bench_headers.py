"""Processor time and memory of reading large checkpoints: `python tests/bench_headers.py` (pytest does not
collect it).

Headers are made by pattern, 5,000 tensors a file, with the names of a mixture-of-experts checkpoint in NVFP4.
A row that takes much more than its share of the tensors would show a cost that is not linear.
"""

import json
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from time import process_time

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "py"))

from willitserve.checkpoint import CheckpointBuilder
from willitserve.safetensors import parse_header

TENSORS_PER_FILE = 5_000
EXPERTS = 128
WORDS = (
    ("weight", "U8", (1536, 2048), 1536 * 2048),
    ("weight_scale", "F8_E4M3", (1536, 256), 1536 * 256),
    ("weight_scale_2", "F32", (), 4),
    ("input_scale", "F32", (), 4),
)
MATRICES = ("gate_proj", "up_proj", "down_proj")


def files(num_tensors: int) -> Iterator[tuple[bytes, int]]:
    """(first bytes, size of the file) of each file."""
    entries: dict[str, object] = {}
    begin = 0
    for index in range(num_tensors):
        index_of_matrix, word = divmod(index, len(WORDS))
        index_of_expert, matrix = divmod(index_of_matrix, len(MATRICES))
        layer, expert = divmod(index_of_expert, EXPERTS)
        name, dtype, shape, size = WORDS[word]
        entries[f"model.layers.{layer}.mlp.experts.{expert}.{MATRICES[matrix]}.{name}"] = {
            "dtype": dtype,
            "shape": shape,
            "data_offsets": [begin, begin + size],
        }
        begin += size
        if len(entries) == TENSORS_PER_FILE or index == num_tensors - 1:
            header = json.dumps(entries, separators=(",", ":")).encode()
            yield len(header).to_bytes(8, "little") + header, 8 + len(header) + begin
            entries, begin = {}, 0


def megabytes() -> float:
    """Resident memory at its highest, 10**6 B."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def main() -> None:
    """One row per size."""
    print("   tensors  header MB   parse s    fold s  finish s  us/tensor   peak MB")
    for num_tensors in (50_000, 100_000, 200_000, 500_000):
        parse = fold = 0.0
        header_bytes = 0
        builder = CheckpointBuilder()
        for data, size in files(num_tensors):
            header_bytes += len(data)
            start = process_time()
            header = parse_header(data, file_size=size)
            parsed = process_time()
            builder.add(f"{size}-{header_bytes}", header)
            parse += parsed - start
            fold += process_time() - parsed
        start = process_time()
        builder.finish(None, None)
        finish = process_time() - start
        per_tensor = (parse + fold + finish) / num_tensors * 1e6
        print(
            f"{num_tensors:>10,} {header_bytes / 1e6:>10.1f} {parse:>9.3f} {fold:>9.3f} {finish:>9.3f}"
            f" {per_tensor:>10.2f} {megabytes():>9.0f}"
        )


if __name__ == "__main__":
    main()
