"""Temporary folders; the next process removes those of killed owners."""

import contextlib
import functools
import os
import tempfile
import weakref

from detection_core.storage.local_files import LOCAL_DISK
from detection_core.storage.local_lock import claim_folder

_NAME = "detflow"


class ScratchFolder:
    """A new private folder in the system's temporary folder; it is removed with the block or the object.

    Its owner holds a lock on it, which always ends with the process. When a process makes its first scratch
    folder, it removes those of killed owners.

    Attributes:
        name: its path.
        remove: removes it with all its content.
    """

    def __init__(self) -> None:
        parent, process = os.path.abspath(tempfile.gettempdir()), os.getpid()
        _remove_abandoned(parent, process)
        self.name, descriptor = claim_folder(os.path.join(parent, _NAME), 0o700)
        self.remove = weakref.finalize(self, _remove, self.name, descriptor, process)

    def __enter__(self) -> str:
        return self.name

    def __exit__(self, *exception: object) -> None:
        self.remove()


@functools.cache
def _remove_abandoned(parent: str, process: int) -> None:
    del process  # a forked process checks again
    with contextlib.suppress(OSError):  # cleaning up is optional for this process
        LOCAL_DISK.remove_leftovers(parent, _NAME)


def _remove(path: str, descriptor: int, process: int) -> None:
    if os.getpid() == process:  # not in a forked process that ends
        LOCAL_DISK.remove_tree(path)
    os.close(descriptor)
