"""Messages of a file as another process receives them: through a socket, one after the other."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import zmq

from benchmarks.measuring.message_file import HIGH_WATER, MessageFile

ROOT = Path(__file__).parents[2]
WAIT_MS = 60_000


@contextmanager
def received(file: MessageFile) -> Iterator[Iterator[bytes]]:
    """The payloads, the heartbeat left out, while a child process sends them. Not all of them need be taken."""
    with tempfile.TemporaryDirectory(prefix="kvxray-bench-") as folder, zmq.Context() as context:
        address = f"ipc://{folder}/messages"
        socket = context.socket(zmq.PULL)
        socket.setsockopt(zmq.RCVHWM, HIGH_WATER)
        socket.setsockopt(zmq.RCVTIMEO, WAIT_MS)
        socket.bind(address)
        command = [sys.executable, "-m", "benchmarks.measuring.message_file", str(file.path), address]
        sender = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE)
        try:
            socket.poll(WAIT_MS)  # how long a process takes to start is not what is measured
            yield (socket.recv() for _ in range(file.num_messages))
        finally:
            # In this order: a socket that has not taken all cannot be closed any more once its sender is gone.
            socket.close(linger=0)
            sender.terminate()
            sender.communicate()
