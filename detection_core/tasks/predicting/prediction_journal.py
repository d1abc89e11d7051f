"""Journal of a prediction: a repeated command resumes an interrupted one."""

import contextlib
import json
import os
from collections.abc import Iterator
from typing import IO, Any

from detection_core.storage import files
from detection_core.storage.scratch_folder import ScratchFolder

NAME = ".predict.jsonl"


class Journal:
    """Results of finished inputs, a JSON line each.

    Attributes:
        stems: finished input to the stem of its results.
    """

    def __init__(self, path: str, key: str) -> None:
        """Read the file at a path if it has this key; a missing file is created by the first result."""
        self.stems: dict[str, str] = {}
        self._places: dict[str, int] = {}
        self._path, self._head = path, _line(key)
        self._file: IO[bytes] | None = self._open() if os.path.exists(path) else None

    def _open(self) -> IO[bytes]:
        files.make_dirs(os.path.dirname(self._path))
        file = open(self._path, "a+b")  # noqa: SIM115 # `close` closes it
        file.seek(0)
        if file.readline() != self._head:
            file.truncate(0)
            file.write(self._head)
        at = file.tell()
        # A killed process leaves an incomplete line at the end.
        with contextlib.suppress(ValueError):
            while line := file.readline():
                path, stem, _ = json.loads(line)
                self.stems[path], self._places[path] = stem, at
                at += len(line)
        file.truncate(at)
        return file

    def find(self, path: str) -> Any:
        """Return the result of an input as JSON values; None if it is not finished."""
        if self._file is None or path not in self._places:
            return None
        self._file.seek(self._places[path])
        return json.loads(self._file.readline())[2]

    def add(self, path: str, stem: str, result: Any) -> None:
        """Add the result of an input, as JSON values, after its files are written."""
        self._file = self._file or self._open()
        self._places[path] = self._file.seek(0, os.SEEK_END)
        self.stems[path] = stem
        self._file.write(_line([path, stem, result]))
        self._file.flush()

    def close(self, *, remove: bool) -> None:
        """Close the file, and remove it at the end of a prediction."""
        if self._file is not None:
            self._file.close()
            if remove:
                os.remove(self._path)


def _line(value: Any) -> bytes:
    return json.dumps(value).encode() + b"\n"


@contextlib.contextmanager
def open_journal(folder: str, key: str) -> Iterator[Journal]:
    """Yield the journal in an output folder, which is removed if the block ends without an error.

    An object store cannot append, so there and without a folder it is a temporary file: nothing is resumed.

    Args:
        folder: "" for none.
        key: model and options; a journal with another key is started again.
    """
    with contextlib.ExitStack() as stack:
        if not folder or files.is_remote(folder):
            folder = stack.enter_context(ScratchFolder())
        journal = Journal(os.path.join(folder, NAME), key)
        try:
            yield journal
        except BaseException:
            journal.close(remove=False)
            raise
        journal.close(remove=True)
