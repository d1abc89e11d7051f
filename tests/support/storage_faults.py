"""Faults below the storage layer: a writer that ends at its n-th change of the disk or of the object store.

The disk is watched through Python's audit events (sys.addaudithook), which come before each open, rename,
remove, mkdir and rmdir, and whose hook may refuse it; S3 through botocore's event before each call. Nothing
of the code under test is replaced, so what it does between two changes, and on an error, is what it does in
earnest. A process that is dead changes nothing any more: once a change was refused, so is every later one,
those of `finally` and `except` included.
"""

import contextlib
import os
import re
import resource
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from detection_core.storage.files import store_of

_CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate"}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_REMOTE_CHANGES = {"PutObject", "CopyObject", "DeleteObject", "DeleteObjects", "CompleteMultipartUpload"}


class Killed(BaseException):
    """Stands for a kill: nothing after it runs."""


class KilledRemote(Exception):
    """The same for a store: a BaseException would end the thread that all requests run in."""


KILLED = (Killed, KilledRemote)


class Changes:
    """The changes that were made, or tried, while it was active: how many, and their names in order."""

    def __init__(
        self, refuse: Callable[[int], BaseException | None], seen: Callable[[], None] | None
    ) -> None:
        self.made = 0
        self.names: list[str] = []
        self._refuse = refuse
        self._seen = seen
        self._thread = threading.get_ident()
        self._busy = False

    def on_local(self, event: str, arguments: tuple[Any, ...]) -> None:
        """See a change of the disk by this thread; opening to read is none."""
        if threading.get_ident() != self._thread or self._busy:
            return
        opened = event == "open" and not isinstance(arguments[0], int)
        if event in _CHANGES or (opened and arguments[2] & _WRITING):
            self._count(f"{event} {arguments[0]!r}")

    def on_remote(self, model: Any, params: Any, **_: Any) -> None:
        """See a change of the store, by any thread."""
        if model.name in _REMOTE_CHANGES and not self._busy:
            self._count(" ".join([model.name, params["url_path"], *_removed(params)]))

    def _count(self, name: str) -> None:
        self._busy = True
        try:
            if self._seen:
                self._seen()
            self.made += 1
            self.names.append(name)
            error = self._refuse(self.made)
        finally:
            self._busy = False
        if error:
            raise error


def _removed(params: Any) -> list[str]:
    """Return the keys in the body of a DeleteObjects request."""
    body = params.get("body")
    return re.findall(r"<Key>(.*?)</Key>", body.decode()) if params["url_path"].endswith("?delete") else []


_active: list[Changes] = []
_hooked: list[bool] = []


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _active and (event in _CHANGES or event == "open"):
        _active[-1].on_local(event, arguments)


@contextlib.contextmanager
def watched(
    refuse: Callable[[int], BaseException | None] = lambda number: None,
    *,
    remote: bool = False,
    seen: Callable[[], None] | None = None,
) -> Iterator[Changes]:
    """Watch the changes that a block makes of the disk, or of S3 alone.

    `refuse` gives the error that takes the place of a change, by its number from 1; `seen` is called before
    each change of the disk, to do what a reader would do at that moment.
    """
    changes = Changes(refuse, seen)
    if remote:
        events = store_of("s3://").file_system.s3.meta.events
        events.register_first("before-call.s3", changes.on_remote)
        try:
            yield changes
        finally:
            events.unregister("before-call.s3", changes.on_remote)
        return
    if not _hooked:
        sys.addaudithook(_hook)
        _hooked.append(True)
    _active.append(changes)
    try:
        yield changes
    finally:
        _active.pop()


def killed_at(number: int, *, remote: bool = False) -> Callable[[int], BaseException | None]:
    """Return what ends a writer at its n-th change, for `watched`."""
    error = KilledRemote if remote else Killed
    return lambda made: error(f"at change {number}") if made >= number else None


def failing_at(number: int, code: int) -> Callable[[int], BaseException | None]:
    """Return what lets the n-th change fail with an error of the operating system, for `watched`."""
    return lambda made: OSError(code, os.strerror(code)) if made == number else None


@contextlib.contextmanager
def few_descriptors(free: int) -> Iterator[None]:
    """Let the process open so many files and no more."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 40, before[1]))
    held = []
    try:
        with contextlib.suppress(OSError):
            while True:
                held.append(os.open(os.devnull, os.O_RDONLY))
        for _ in range(free):
            os.close(held.pop())
        yield
    finally:
        for descriptor in held:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
