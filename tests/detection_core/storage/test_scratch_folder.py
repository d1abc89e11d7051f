import gc
import os
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from detection_core.storage import scratch_folder
from detection_core.storage.scratch_folder import ScratchFolder

OWNER = """
import sys
from detection_core.storage.scratch_folder import ScratchFolder
folder = ScratchFolder()
open(folder.name + "/saved_model.pb", "w").close()
print(folder.name, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    """Keep temporary folders in one of the test's own, here and in child processes."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    scratch_folder._remove_abandoned.cache_clear()
    yield tmp_path
    scratch_folder._remove_abandoned.cache_clear()


def test_it_is_private_and_goes_with_the_block_or_the_object_of_its_own_process(temporary):
    with ScratchFolder() as path:
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o700
        Path(path, "below").mkdir()
    folder = ScratchFolder()
    assert [str(p) for p in temporary.iterdir()] == [folder.name]
    del folder
    gc.collect()
    assert not list(temporary.iterdir())
    with ScratchFolder() as path:
        child = os.fork()
        if not child:
            try:
                scratch_folder.weakref.finalize._exitfunc()
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        assert os.path.isdir(path)


def test_what_a_killed_process_leaves_goes_with_the_next_one(temporary):
    command, pipes = [sys.executable, "-c", OWNER], {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    owners = [subprocess.Popen(command, text=True, **pipes) for _ in range(3)]
    try:
        paths = [owner.stdout.readline().strip() for owner in owners]
        for owner, number in zip(owners, (signal.SIGKILL, signal.SIGTERM), strict=False):
            owner.send_signal(number)
            owner.wait()
        assert all(map(os.path.exists, paths))
        with ScratchFolder():
            assert [os.path.exists(path) for path in paths] == [False, False, True]
        owners[2].communicate()
        assert not list(temporary.iterdir())
    finally:
        for owner in owners:
            owner.kill()
            owner.communicate()
