"""Kernels compiled without a GPU: which variants, how they are caught at their launch, what is read from their code."""
