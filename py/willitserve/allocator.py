"""What one tensor takes of GPU memory: PyTorch hands out blocks, not bytes."""

from typing import Final

from willitserve.units import MIB, round_up

SMALLEST_BLOCK: Final = 512
SEGMENT_OF_ITS_OWN: Final = 10 * MIB
SEGMENT_GRANULE: Final = 2 * MIB
LARGEST_UNSPLIT_REST: Final = MIB


def allocated_bytes(num_bytes: int) -> int:
    """Bytes of the block that holds a tensor of `num_bytes`, as `torch.cuda.memory_allocated` counts it.

    Formula
        whole blocks of 512 B; from 10 MiB on a segment of its own, in steps of 2 MiB, of which a rest of up
        to 1 MiB stays with the tensor

    Source
        PyTorch c10/cuda/CUDACachingAllocator.cpp: kMinBlockSize, kMinLargeAlloc, kRoundLarge, kSmallSize,
        `should_split`.

    Not covered
        Rests that a smaller tensor takes over, and expandable segments.
    """
    block = round_up(num_bytes, SMALLEST_BLOCK)
    if block < SEGMENT_OF_ITS_OWN:
        return block
    segment = round_up(block, SEGMENT_GRANULE)
    return segment if segment - block <= LARGEST_UNSPLIT_REST else block
