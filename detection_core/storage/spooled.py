"""A sequence whose first items are in memory and whose others are in a temporary file."""

import pickle
import tempfile
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

Item = TypeVar("Item")
_BLOCK = 100
_IN_MEMORY = 20
"""Blocks."""


class Spooled(Sequence[Item]):
    """Items that are appended once and read often, mostly in order.

    Items are pickled in blocks. The first blocks and the one read last are in memory. Items from the file are
    new objects each time. It has no name and ends with this object.
    """

    def __init__(self, items: Iterable[Item] = ()) -> None:
        self._blocks: list[Any] = [[]]  # an offset in the file for each block that is there
        self._file = tempfile.SpooledTemporaryFile(1)  # noqa: SIM115
        self._read: tuple[int, list[Item]] = (-1, [])
        self.extend(items)

    def extend(self, items: Iterable[Item]) -> None:
        """Append items."""
        for item in items:
            newest = self._blocks[-1]
            newest.append(item)
            if len(newest) == _BLOCK:
                if len(self._blocks) > _IN_MEMORY:
                    self._blocks[-1] = self._file.seek(0, 2)
                    pickle.dump(newest, self._file)
                self._blocks.append([])

    def __len__(self) -> int:
        return _BLOCK * (len(self._blocks) - 1) + len(self._blocks[-1])

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self[each] for each in range(len(self))[place]]
        block, row = divmod(range(len(self))[place], _BLOCK)
        found = self._blocks[block]
        if isinstance(found, int) and found != self._read[0]:
            self._file.seek(found)
            self._read = found, pickle.load(self._file)
        return (self._read[1] if isinstance(found, int) else found)[row]

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[list[Item]]]:
        return Spooled, (list(self),)
