"""Constants of measure. GiB = 2**30 B is what engines and drivers print; GB = 10**9 B is what datasheets
print."""

KIB = 2**10
MIB = 2**20
GIB = 2**30
GB = 10**9


def ceil_div(dividend: int, divisor: int) -> int:
    """Integer division rounded towards plus infinity, exact for any size of int."""
    return -(-dividend // divisor)


def round_up(value: int, multiple: int) -> int:
    """The smallest multiple of `multiple` that is not below `value`."""
    return ceil_div(value, multiple) * multiple
