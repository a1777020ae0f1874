"""Whether a stream is silent though its engine has something to tell, and for how long it was before it spoke again."""

from __future__ import annotations

from kvxray_backend.analysis import stream_findings as found
from kvxray_backend.analysis.findings_list import FindingsList
from kvxray_backend.analysis.stream_health import Place


class Silence:
    """`last_heard_ns`: when a batch came last, None before the first. `silent_s`: how long nothing had come before
    that, or has not come since, where it was long enough to be stale; 0: it was not.
    """

    def __init__(self, findings: FindingsList) -> None:
        self.last_heard_ns: int | None = None
        self.silent_s = 0.0
        self._findings = findings
        self._stale_id = ""
        self._idle_ns = 0
        self._has_missed = False

    @property
    def is_stale(self) -> bool:
        return bool(self._stale_id)

    def hear(self, received_ns: int) -> None:
        before, self.last_heard_ns = self.last_heard_ns, max(received_ns, self.last_heard_ns or 0)
        silent_s = 0.0 if before is None else (received_ns - before) / 1e9
        self.silent_s = silent_s if silent_s >= found.STALE_AFTER_S else 0.0
        self._idle_ns, self._has_missed = 0, False
        self._end(received_ns)

    def advance(self, now_ns: int, place: Place, work: found.Work | None) -> None:
        """work: what metrics show; None: not known. While the engine is known to be idle, and for a while after that,
        it has nothing to tell; but where it worked for long without a word, it stays stale.
        """
        since_ns = self.last_heard_ns
        if since_ns is None:
            return
        if work == "idle":
            self._idle_ns = max(now_ns, self._idle_ns)
            if not self._has_missed:
                self._end(now_ns)
            return
        silent_since_ns = since_ns if work == "sleeps" else max(since_ns, self._idle_ns)
        if now_ns - silent_since_ns < found.STALE_AFTER_S * 1e9:
            return
        finding = found.stale_stream_finding(place, since_ns, now_ns, work=work)
        self._stale_id, self.silent_s = finding.id, (now_ns - since_ns) / 1e9
        self._has_missed |= work == "works"
        self._findings.note(finding)

    def _end(self, t_ns: int) -> None:
        if self._stale_id:
            self._findings.end(self._stale_id, t_ns)
            self._stale_id = ""
