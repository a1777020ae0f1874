"""The Triton kernels, each with its launcher; importing any of them needs triton, so nothing else here imports them."""
