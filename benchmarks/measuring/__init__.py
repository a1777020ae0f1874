"""What several benchmarks measure with."""
