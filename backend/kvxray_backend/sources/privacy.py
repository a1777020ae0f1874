"""Names of holders as they may be kept: secrets as keyed digests, ids no longer than a page can bear."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

import msgspec
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.codec import Message
from kvxray_engine.stream.schema import Name

MAX_ID: Final = 200
_MAX_KEY_BYTES: Final = 64


class NameFilter:
    """Rewrites names before anything else sees them. One key a database, so that tenants compare across engines."""

    def __init__(self, key: bytes) -> None:
        # BLAKE2b takes keys of up to 64 bytes; a longer one is hashed first, as HMAC does.
        self._key = key if len(key) <= _MAX_KEY_BYTES else blake2b(key).digest()

    def message(self, message: Message) -> Message:
        """The same message with its names rewritten."""
        names = message.header.names
        if not names:
            return message
        header = msgspec.structs.replace(message.header, names=tuple(map(self.name, names)))
        return Message(header, message.columns)

    def snapshot(self, block_map: BlockMap) -> None:
        """Rewrites the names inside a snapshot, in place."""
        names = block_map.requests.names
        for ordinal, name in names.items():
            names[ordinal] = self.name(name)

    def name(self, name: Name) -> Name:
        """Tenant, session and salt as digests, equal where they were equal; a long id cut."""
        if not (name.tenant or name.session or name.salt) and len(name.id) <= MAX_ID:
            return name
        return msgspec.structs.replace(
            name,
            id=name.id if len(name.id) <= MAX_ID else name.id[: MAX_ID - 1] + "…",
            tenant=self.digest(name.tenant),
            session=self.digest(name.session),
            salt=self.digest(name.salt),
        )

    def digest(self, text: str) -> str:
        """128 bits in hexadecimal that say nothing of the text but whether it is the same; empty stays empty."""
        if not text:
            return ""
        return blake2b(text.encode("utf-8", "surrogatepass"), key=self._key, digest_size=16).hexdigest()
