"""What transformers generates with the weights of one of our models."""

from transformers import LlamaForCausalLM

from benchmarks.measuring.transformers_peer import generate_greedily, transformers_twin

__all__ = ["greedy", "transformers_twin"]


def greedy(twin: LlamaForCausalLM, prompt: list[int], max_tokens: int) -> list[int]:
    """The tokens after one prompt, end-of-text tokens not heeded."""
    return generate_greedily(twin, [prompt], max_tokens)[0]
