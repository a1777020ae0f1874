"""The metrics of one engine beside the events of another, told apart though each is plausible by itself."""

from __future__ import annotations

import pytest
from kvxray_backend.metrics.exposition import parse_page
from kvxray_backend.sources.foreign.offline import OfflineSession

from tests.backend.foreign.payloads import packed, stored

IDLE = parse_page(b"vllm:num_requests_running 0\nvllm:num_requests_waiting 0\nvllm:prompt_tokens_total 900\n")
BEGAN_S = 1_700_000_000
MINUTES = 2


def contradictions(*, is_at_work: bool, clock_ahead_s: float) -> list[str]:
    """What is found where a page is read every 5 s, and a block comes every second or came once at the beginning."""
    session = OfflineSession()
    for second in range(60 * MINUTES):
        now_ns = (BEGAN_S + second) * 10**9
        if is_at_work or second == 0:
            payload = packed(stored((second + 1,), block_size=16), ts=BEGAN_S + second + clock_ahead_s)
            session.feed("it", b"", second, payload, now_ns)
        if second % 5 == 0:
            session.take_page("it", IDLE, now_ns)
    return [one.id.rpartition(":")[2] for one in session.findings() if one.kind == "metrics_contradiction"]


def test_events_at_work_beside_metrics_at_rest_are_a_contradiction() -> None:
    assert contradictions(is_at_work=True, clock_ahead_s=0) == ["requests_running"]


@pytest.mark.parametrize(
    ("is_at_work", "clock_ahead_s"),
    [
        pytest.param(False, 0, id="both are at rest"),
        pytest.param(True, -3600, id="events of another time, as those of a recording"),
    ],
)
def test_what_may_fit_together_is_none(is_at_work: bool, clock_ahead_s: float) -> None:
    assert contradictions(is_at_work=is_at_work, clock_ahead_s=clock_ahead_s) == []
