"""Will it serve? Memory, bandwidth, precision, scaling of a model on a GPU, from headers and config alone."""

__version__ = "0.1.0"
