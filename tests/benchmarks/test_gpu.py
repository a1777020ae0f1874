"""The GPU script where there is no GPU: what it counts, the steps it takes, and its checks in Triton's interpreter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from kvxray_kernels.backend import CacheShape
from kvxray_kernels.cache_format import BFLOAT16, INT4

from benchmarks import gpu
from benchmarks.on_gpu.cases import MODELS, STEPS, TINY_STEPS, Step
from benchmarks.on_gpu.traffic import attention_flops, decode_bytes, layers_beyond_cache

ROOT = Path(__file__).parents[2]
SHAPE = CacheShape(num_layers=1, num_blocks=100, block_size=16, num_kv_heads=2, head_dim=64)


def test_decode_reads_every_key_and_value_once() -> None:
    # 50 tokens x (keys, values) x 2 heads x 64 numbers x 2 bytes; 1 + 3 block ids; 2 sequences x 8 heads in and out
    assert decode_bytes(SHAPE, BFLOAT16, 8, (10, 40), 2) == 50 * 2 * 2 * 128 + 4 * 4 + 2 * 2 * 8 * 64 * 2


def test_scales_are_bytes_too() -> None:
    assert decode_bytes(SHAPE, INT4, 2, (16,), 2) == 16 * 2 * 2 * (32 + 4) + 4 + 2 * 2 * 64 * 2


def test_operations_are_those_of_what_each_query_sees() -> None:
    seen = sum(range(1, 6)) + sum(range(8, 11)) + 7  # five queries of five, the last three of ten, one of seven
    assert attention_flops(4, 64, (5, 3, 1), (5, 10, 7)) == 4 * seen * 4 * 64


def test_layers_are_as_many_as_the_cache_cannot_hold() -> None:
    assert layers_beyond_cache(10, 50, 64) == 20
    assert layers_beyond_cache(1000, 50, 64) == 1
    assert layers_beyond_cache(1, 50, 64) == 64


@pytest.mark.parametrize("step", [*STEPS, *TINY_STEPS], ids=str)
@pytest.mark.parametrize("block_size", sorted({model.block_size for model in MODELS if model.block_size <= 16}))
def test_the_blocks_of_a_step_are_each_sequence_s_own_but_for_the_shared(step: Step, block_size: int) -> None:
    tables = step.block_tables(block_size)
    own = [block for table in tables for block in table[step.shared_blocks :]]
    shared = tables[0][: step.shared_blocks]
    assert all(table[: step.shared_blocks] == shared for table in tables)
    assert sorted(shared + own) == list(range(1, step.num_blocks(block_size)))
    assert [len(table) for table in tables] == [-(-length // block_size) for length in step.context_lens]


def test_without_a_gpu_it_says_so_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr("sys.argv", ["gpu", "--json"])
    assert gpu.main() == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("kvxray: There is no NVIDIA GPU here")
    assert told.err.count("\n") == 1


def test_ties_are_ties() -> None:
    program = "from benchmarks.on_gpu.fp8_rounding import ties; print(*ties().tolist())"
    numbers = [float(word) for word in interpreted(program).split()]
    assert {0.0, 2.0**-9, 2.0**-10, 448.0, 464.0, -17.0, 17.0} <= set(numbers)
    assert len(numbers) == 2 * 3 * (127 + 126 + 4)


def test_a_wrong_result_is_a_miss_and_a_right_one_is_not() -> None:
    program = (
        "import torch, benchmarks.on_gpu.correctness as c\n"
        "from benchmarks.on_gpu.cases import TINY_MODELS, TINY_STEPS\n"
        "from kvxray_kernels.cache_format import INT8\n"
        "device = torch.device('cpu')\n"
        "def passed():\n"
        "    checks = [*c._cache_checks(device, TINY_MODELS[0], INT8)]\n"
        "    checks += c._attention_checks(device, TINY_MODELS[0], INT8, TINY_STEPS[0])\n"
        "    print(*(check.passed for check in checks))\n"
        "passed()\n"
        "write, attend = c.TritonBackend.write_kv, c.TritonBackend.attend\n"
        "c.TritonBackend.write_kv = lambda self, layer, k, v, slots: write(self, layer, k, v, slots.roll(1))\n"
        "c.TritonBackend.attend = lambda *given: attend(*given) * 1.1\n"
        "passed()\n"
    )
    right, wrong = interpreted(program).splitlines()
    assert right == "True True True True"
    assert wrong == "False False False False"


def test_speed_is_told_beside_the_peers_and_what_a_peer_cannot_do_is_a_sentence() -> None:
    program = (
        "import json, torch, benchmarks.on_gpu.speed as speed\n"
        "from types import SimpleNamespace\n"
        "torch.cuda.mem_get_info = lambda device: (1 << 30, 1 << 30)\n"
        "torch.cuda.get_device_properties = lambda device: SimpleNamespace(L2_cache_size=100_000)\n"
        "speed.seconds_of = lambda work: work() or 0.5\n"
        "device = torch.device('cpu')\n"
        "decode = [('bfloat16', 1, 17), ('int4', 1, 1 << 30)]\n"
        "rows = [speed.decode_speed(device, *of, 1e6) for of in decode]\n"
        "print(json.dumps([*rows, speed.prefill_speed(device, 3, 17)]))\n"
    )
    decode, too_large, prefill = json.loads(interpreted(program))
    moved = 17 * 2 * 8 * 256 + 2 * 4 + 2 * 32 * 256
    assert decode["bytes_per_layer"] == moved
    assert decode["layers"] == -(-400_000 // (3 * 16 * 2 * 8 * 256))  # two blocks and the null block
    assert decode["gb_per_s"] == pytest.approx(moved * decode["layers"] / 0.5 / 1e9)
    assert decode["share_of_copy"] == pytest.approx(decode["gb_per_s"] * 1e3)
    assert decode["peers"].keys() == prefill["peers"].keys() == {"torch", "vllm", "flashinfer"}
    assert decode["peers"]["torch"] == {name: decode[name] for name in ("gb_per_s", "share_of_copy")}
    assert "ModuleNotFoundError" in decode["peers"]["vllm"]
    assert "needs" in too_large["skipped"]
    assert prefill["tflop_per_s"] == pytest.approx(4 * (15 + 16 + 17) * 32 * 128 / 0.5 / 1e12)


def test_torch_attends_over_the_same_keys_and_values() -> None:
    program = (
        "import torch, benchmarks.on_gpu.speed as speed\n"
        "from benchmarks.on_gpu.cases import Step\n"
        "from benchmarks.on_gpu.peers import torch_sdpa\n"
        "from kvxray_kernels.cache_format import BFLOAT16\n"
        "speed.MODEL = speed.Model(16, 1, 3)\n"
        "for step in (Step('decode', (1, 1), (20, 20)), Step('whole', (20,), (20,)), Step('chunk', (5,), (20,))):\n"
        "    workload = speed.Workload(torch.device('cpu'), BFLOAT16, step, 2)\n"
        "    ours = workload.backend.attend(1, workload.q, workload.metadata)\n"
        "    theirs = torch_sdpa(workload.backend, workload.metadata, workload.q)(1)\n"
        "    print(torch.allclose(theirs.transpose(1, 2).flatten(0, 1), ours, atol=3e-2))\n"
    )
    assert interpreted(program).split() == ["True"] * 3


def interpreted(program: str) -> str:
    """Kernels are interpreted in a process of their own: this one may have loaded them for something else."""
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
