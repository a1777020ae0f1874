"""A bearer token out of a file or an environment variable, read anew for each request, since clusters renew theirs."""

from __future__ import annotations

import os
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx2

from kvxray_backend.loopback import is_loopback

MAX_TOKEN_BYTES: Final = 16_384


class NoTokenError(ValueError):
    """The token cannot be had, or must not be sent there; says so in one sentence, without the token."""


@dataclass(frozen=True, slots=True)
class TokenPlace:
    """Where the token is: a file, or an environment variable; exactly one of the two."""

    file: Path | None = None
    variable: str = ""

    def __post_init__(self) -> None:
        if (self.file is None) == (not self.variable):
            raise ValueError("a token is in a file or in an environment variable, one of the two")

    def read(self) -> str:
        """Raises NoTokenError."""
        token = self._from_file(self.file) if self.file is not None else os.environ.get(self.variable, "").strip()
        where = f"the file {self.file}" if self.file is not None else f"the environment variable {self.variable}"
        if not token:
            raise NoTokenError(f"{where} holds no token")
        if len(token) > MAX_TOKEN_BYTES or not token.isascii() or not token.isprintable() or " " in token:
            raise NoTokenError(f"what {where} holds is no token: one word of plain characters")
        return token

    def _from_file(self, path: Path) -> str:
        try:
            with path.open("rb") as file:
                return file.read(MAX_TOKEN_BYTES + 1).decode("ascii", "replace").strip()
        except OSError as error:
            raise NoTokenError(f"the token's file {path} cannot be read: {error.strerror}") from None


class Bearer(httpx2.Auth):
    """Sends the token over TLS, or to this machine, and nowhere else; clients that use it follow no redirects."""

    def __init__(self, place: TokenPlace) -> None:
        self._place = place

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        if request.url.scheme != "https" and not is_loopback(request.url.host):
            raise NoTokenError("a token is sent over https only, or to this machine")
        request.headers["authorization"] = f"Bearer {self._place.read()}"
        yield request
