"""`kvxray bench serve` measures a server that it starts itself, with and without prefix caching."""

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.serve import percentile

ROOT = Path(__file__).parents[2]
FIELDS = {"ttft_p50_s", "ttft_p99_s", "tpot_p50_s", "tokens_per_s", "prefix_hit_ratio", "without_prefix_caching"}


def bench(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kvxray_backend.cli", "bench", "serve", "--json", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)


def test_it_reports_times_throughput_and_hits_of_both_variants() -> None:
    done = bench("--model", "tiny", "--num-prompts", "6", "--request-rate", "inf", "--max-tokens", "5")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told.keys() >= FIELDS
    for variant in (told, told["without_prefix_caching"]):
        assert (variant["completed"], variant["failed"], variant["output_tokens"]) == (6, 0, 30)
        assert 0 < variant["ttft_p50_s"] <= variant["ttft_p99_s"]
        assert variant["tokens_per_s"] > 0
    assert 0.3 < told["prefix_hit_ratio"] < 1, "all share a system prompt"
    assert told["without_prefix_caching"]["prefix_hit_ratio"] is None


def test_a_wrong_option_is_one_sentence() -> None:
    done = bench("--num-prompts", "0")
    assert done.returncode == 2
    assert "--num-prompts goes from 1 to 10000" in done.stderr


def test_a_percentile_is_a_value_that_was_measured() -> None:
    assert percentile([3.0, 1.0, 2.0, 4.0], 0.5) == 2.0
    assert percentile([3.0, 1.0, 2.0, 4.0], 0.99) == 4.0
    assert percentile([], 0.5) is None
