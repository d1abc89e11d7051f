"""Files that become an object of a store when they are closed."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from typing import Any

from detection_core.storage.scratch_folder import ScratchFolder


class PendingUpload(io.BufferedWriter):
    """A temporary file that becomes an object when it is closed, and nothing when its block fails."""

    def __init__(self, upload: Callable[[str], None]) -> None:
        """Open it.

        Args:
            upload: from the path of the file to nothing; makes the object.
        """
        self._scratch = ScratchFolder()
        self._local = os.path.join(self._scratch.name, "upload")
        super().__init__(io.FileIO(self._local, "wb"))
        self._upload, self._abandoned = upload, False

    def abandon(self) -> None:
        """Abort the upload: the writer failed."""
        self._abandoned = True

    def close(self) -> None:
        """Upload the file and remove it."""
        if self.closed:
            return
        try:
            super().close()
            if not self._abandoned:
                self._upload(self._local)
        finally:
            self._scratch.remove()

    def __exit__(self, *error: Any) -> None:
        if error[0] is not None:
            self.abandon()
        self.close()

    def __del__(self) -> None:
        self.abandon()
        self.close()


class PendingTextUpload(io.TextIOWrapper):
    """The same for text."""

    def __init__(self, raw: PendingUpload) -> None:
        super().__init__(raw, encoding="utf-8")
        self._raw = raw

    def __exit__(self, *error: Any) -> None:
        if error[0] is not None:
            self._raw.abandon()
        self.close()

    def __del__(self) -> None:
        if not self.closed:
            self._raw.abandon()
            self.close()
