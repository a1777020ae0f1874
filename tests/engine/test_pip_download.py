"""What the progress of a download is read from changes while it is read."""

from __future__ import annotations

import shutil
import threading

from kvxray_engine.models.pip_download import _folder_bytes


def test_folders_that_vanish_while_they_are_counted_count_nothing(tmp_path):
    (tmp_path / "kept").write_bytes(bytes(1000))
    stop = threading.Event()

    def come_and_go():
        while not stop.is_set():
            for number in range(20):
                (tmp_path / f"gone{number}" / "deep").mkdir(parents=True)
            for number in range(20):
                shutil.rmtree(tmp_path / f"gone{number}")

    pip = threading.Thread(target=come_and_go)
    pip.start()
    try:
        assert {_folder_bytes(tmp_path) for _ in range(300)} == {1000}
    finally:
        stop.set()
        pip.join()
