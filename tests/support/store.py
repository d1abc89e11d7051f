"""One store of what is slow to make: trained, quantized and exported detectors, data sets.

An entry is a folder that a function of this package fills. It is made once for all workers and runs, below
`build/test-store` or $DETFLOW_TEST_STORE, and made again when the settings change or any file that its
maker needs.
"""

import fcntl
import functools
import hashlib
import inspect
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.import_closure import ROOT, closure_digest

UNUSED_SECONDS = 3 * 86400


def stored(make: Callable[..., None], **settings: Any) -> Path:
    """Return the folder that `make(folder, **settings)` fills, here or in another worker or earlier run.

    The maker is a function of a module, its settings are JSON values. All tests share the folder: copy what
    is to be changed.
    """
    name = f"{make.__module__.rpartition('.')[2]}.{make.__name__}"
    entry = _root() / f"{name}-{_key(make, json.dumps(settings, sort_keys=True))}"
    if not entry.is_dir():
        # A lock for each entry: another worker makes the other family's meanwhile.
        with open(f"{entry}.lock", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not entry.is_dir():
                _make(entry, name, functools.partial(make, **settings))
    os.utime(entry)
    return entry


def _make(entry: Path, name: str, fill: Callable[[Path], None]) -> None:
    # Old entries with their locks, and what killed makers left under another name.
    for old in entry.parent.glob(f"*{name}-*"):
        if time.time() - old.stat().st_mtime > UNUSED_SECONDS:
            shutil.rmtree(old, ignore_errors=True)
            if old.suffix == ".lock":
                old.unlink(missing_ok=True)
    making = Path(tempfile.mkdtemp(prefix=f"making-{name}-", dir=entry.parent))
    try:
        fill(making)
        making.chmod(0o755)
        making.rename(entry)
    finally:
        shutil.rmtree(making, ignore_errors=True)


@functools.cache
def _root() -> Path:
    root = Path(os.environ.get("DETFLOW_TEST_STORE", ROOT / "build" / "test-store"))
    root.mkdir(parents=True, exist_ok=True)
    return root


@functools.cache
def _key(make: Callable[..., None], settings: str) -> str:
    made_by = closure_digest(Path(inspect.getfile(make)))
    return hashlib.sha256(f"{made_by}\0{make.__name__}\0{settings}".encode()).hexdigest()[:16]
