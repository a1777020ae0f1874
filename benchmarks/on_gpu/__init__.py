"""What `benchmarks.gpu` does on a machine with a GPU: check every kernel's results, then time them."""
