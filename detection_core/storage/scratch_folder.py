"""Folders for temporary files, which the next process removes where their owner was killed."""

from __future__ import annotations

import contextlib
import functools
import os
import tempfile
import weakref

from detection_core.storage import local_files

_NAME = "detflow"


class ScratchFolder:
    """A new folder of this user below the system's temporary one; it goes with the block or the object.

    Its owner holds a lock on it, which ends with the process, however it ends. When a process makes its first
    scratch folder, it removes those whose owners were killed.

    Attributes:
        name: its path.
        remove: removes it with all below it.
    """

    def __init__(self) -> None:
        parent, process = os.path.abspath(tempfile.gettempdir()), os.getpid()
        _remove_abandoned(parent, process)
        self.name, descriptor = local_files.claim_private_folder(os.path.join(parent, _NAME))
        self.remove = weakref.finalize(self, _remove, self.name, descriptor, process)

    def __enter__(self) -> str:
        """Return its path."""
        return self.name

    def __exit__(self, *exception: object) -> None:
        """Remove it with all below it."""
        self.remove()


@functools.cache
def _remove_abandoned(parent: str, process: int) -> None:
    del process  # a forked one looks again
    with contextlib.suppress(OSError):  # nothing that this process needs
        local_files.remove_leftovers(parent, _NAME)


def _remove(path: str, descriptor: int, process: int) -> None:
    if os.getpid() == process:  # not a forked one that ends
        local_files.remove_tree(path)
    os.close(descriptor)
