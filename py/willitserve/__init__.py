"""Will it serve? Memory, bandwidth, precision and scaling of a model on a GPU, from headers and config alone."""
