"""The lines of a file that anybody may have written: plain or gzipped, as a stream, in bounded memory.

Only regular files are opened, so that nothing waits for a writer that never comes. A gzipped file that was cut off is
read as far as it goes; of a plain one the last line may lack its end.
"""

from __future__ import annotations

import gzip
import os
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, cast

from kvxray_engine.errors import UserError

from kvxray_backend.sources.foreign.recording import MAX_LINE_BYTES

_GZIP: Final = b"\x1f\x8b"


class RecordedLines:
    """What is left to read of a file. `number`: of the line that was read last, from 1; `is_cut`: the file ends where
    gzip says that it should not. Owns the file: close it.
    """

    def __init__(self, path: Path) -> None:
        """Raises `UserError` for what is no file, or cannot be read."""
        self.path = path
        self.number = 0
        self.is_cut = False
        self._raw = _opened(path)
        is_gzipped = self._raw.read(2) == _GZIP
        self._raw.seek(0)
        self._file = cast("BinaryIO", gzip.GzipFile(fileobj=self._raw, mode="rb")) if is_gzipped else self._raw

    def __enter__(self) -> RecordedLines:
        return self

    def __exit__(self, *told: object) -> None:
        self._raw.close()

    def __iter__(self) -> Iterator[bytes]:
        """Lines that are not empty. Raises `UserError` for one that is too long, and for a file that cannot be read."""
        while text := self._read(MAX_LINE_BYTES + 1):
            self.number += 1
            if len(text) > MAX_LINE_BYTES:
                raise UserError(
                    f"Line {self.number} of {self.path} is longer than the {MAX_LINE_BYTES:,} bytes that are taken."
                )
            if text.strip():
                yield text

    def rest(self, first: bytes, at_most: int) -> bytes:
        """All that is left after `first`, with it. Raises `UserError` where that is more than `at_most` bytes."""
        parts, size = [first], len(first)
        while size <= at_most and (more := self._read(at_most + 1 - size)):
            parts.append(more)
            self.number += 1
            size += len(more)
        if size > at_most:
            raise UserError(f"{self.path} is one list of more than the {at_most:,} bytes that are taken of one.")
        return b"".join(parts)

    def _read(self, at_most: int) -> bytes:
        try:
            return self._file.readline(at_most)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            if not self.number:
                raise UserError(
                    f"{self.path} begins like a gzipped file, and not one line of it can be unpacked."
                ) from error
            self.is_cut = True
            return b""
        except OSError as error:
            raise UserError(f"{self.path} cannot be read: {error.strerror or error}.") from error


def _opened(path: Path) -> BinaryIO:
    try:
        # Without O_NONBLOCK a pipe that nobody writes to would be waited for here.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}.") from error
    except ValueError as error:
        raise UserError(f"{str(path)!r} is no name of a file.") from error
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise UserError(f"{path} is a folder; name the recordings in it.")
    raise UserError(f"{path} is no regular file; write what it gives to one first.")
