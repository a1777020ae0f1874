"""Proof that a POST came from here and is not an old one sent again: a sum over the time and the body, by a key."""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

HEADER: Final = "X-Kvxray-Signature"
DELIVERY_HEADER: Final = "X-Kvxray-Delivery"


def signature(secret: str, time_s: int, body: bytes) -> str:
    """The header's value: `t=SECONDS,v1=HEX`."""
    return f"t={time_s},v1={hmac.new(secret.encode(), f'{time_s}.'.encode() + body, hashlib.sha256).hexdigest()}"
