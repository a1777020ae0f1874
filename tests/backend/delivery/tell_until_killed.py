"""A process that fires alerts and ends them, one after the other, and tells a webhook, until it is killed; and one that
goes on where that was killed, until all is told.
"""

from __future__ import annotations

import time
import uuid

from kvxray_backend.alerts.alert_rows import alert_of_row
from kvxray_backend.delivery import keeping, lane
from kvxray_storage.alerts import Wanted, alerts

from tests.backend.delivery.sent_alerts import Sending, made_alert
from tests.backend.served import until

TOGETHER = 3
"""So many fire at a time."""
MOST_WAITING = 20


def tell_for_ever(url: str, port: int) -> None:
    one = _sending(url, port)
    firing = _still_firing(one)
    while True:
        until(lambda: one.delivery.targets()[0].waiting < MOST_WAITING)
        made = made_alert(f"alert-{uuid.uuid4().hex}", engine=f"engine-{len(firing)}")
        one.fire(made)
        firing.append(made)
        if len(firing) > TOGETHER:
            one.end(firing.pop(0))
        time.sleep(0.03)


def tell_the_rest(url: str, port: int) -> None:
    one = _sending(url, port)
    one.end(*_still_firing(one))
    until(lambda: one.delivery.targets()[0].waiting == 0)
    one.close()


def _sending(url: str, port: int) -> Sending:
    lane.GROUP_WAIT_NS = 10_000_000
    lane.FIRST_BACKOFF_S, lane.LONGEST_BACKOFF_S = 0.02, 0.1
    # However slow the machine is: nothing goes out before it is stored under the id that it goes out with.
    keeping.WAIT_S, lane.STORED_WAIT_NS = 60.0, 60 * 10**9
    return Sending(url, [{"name": "pager", "url": f"http://127.0.0.1:{port}/hook"}])


def _still_firing(one: Sending):
    stored = alerts(one.database, Wanted(state="firing"), 10_000)
    return [alert_of_row(row) for row in reversed(stored)]
