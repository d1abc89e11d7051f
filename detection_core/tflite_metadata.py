"""Reading the standard metadata of a TensorFlow Lite file: how its input is normalised, and its labels.

The records are those that LiteRT's task libraries read: a `TFLITE_METADATA` buffer (a flatbuffer of the
TensorFlow Lite support library's schema M001) and a label file, appended to the model as a zip archive.
"""

from __future__ import annotations

import dataclasses
import io
import struct
import zipfile

from detection_core.errors import ModelError

METADATA_NAME = "TFLITE_METADATA"
LABEL_FILE = "labels.txt"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TFLiteDescription:
    """What a detector's file says of itself.

    Attributes:
        name: of the model.
        mean: of each channel, or one for all; the network takes (pixel - mean) / std, pixels in 0..255.
        std: of each channel, or one for all.
        labels: names of classes 0, 1, ...; empty where the file has none.
    """

    name: str
    mean: tuple[float, ...]
    std: tuple[float, ...]
    labels: tuple[str, ...]


def read_description(content: bytes, *, where: str = "") -> TFLiteDescription:
    """Read how a file wants its input normalised, and its labels.

    Args:
        content: a TensorFlow Lite file.
        where: its path, for errors.

    Raises:
        ModelError: when it is no TensorFlow Lite file, or has no metadata with a normalisation.
    """
    if content[4:8] != b"TFL3":
        raise ModelError("expected a TensorFlow Lite file, found another kind; pass a .tflite", where=where)
    model = _Table.root(content)
    # Slots of the schemas: Model.buffers 4, .metadata 6; ModelMetadata.subgraph_metadata 3, its inputs 2,
    # their process units 4, whose options are a union in slots 0 (1: normalisation) and 1.
    for entry in model.tables(6):
        if entry.text(0) == METADATA_NAME:
            metadata = _Table.root(model.tables(4)[entry.number(1, "I")].raw(0))
            graphs = metadata.tables(3)
            inputs = graphs[0].tables(2) if graphs else []
            units = [u.table(1) for u in (inputs[0].tables(4) if inputs else []) if u.number(0, "B") == 1]
            if units:
                return TFLiteDescription(
                    name=metadata.text(0),
                    mean=units[0].floats(0),
                    std=units[0].floats(1),
                    labels=_read_labels(content),
                )
    raise ModelError(
        "expected metadata that says how the input is normalised, found none; export the file with"
        " `detflow export`, or add the metadata to it",
        where=where,
    )


def _read_labels(content: bytes) -> tuple[str, ...]:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = [name for name in archive.namelist() if name.endswith(".txt")]
            return tuple(archive.read(names[0]).decode().splitlines()) if names else ()
    except zipfile.BadZipFile:
        return ()


@dataclasses.dataclass(frozen=True)
class _Table:
    """A flatbuffer table: the few reads that metadata needs.

    Attributes:
        data: the whole flatbuffer.
        position: of the table in it.
    """

    data: bytes
    position: int

    @classmethod
    def root(cls, data: bytes) -> _Table:
        return cls(data, struct.unpack_from("<I", data, 0)[0])

    def _field(self, slot: int) -> int:
        """Return a field's position, 0 where the table does not have it."""
        layout = self.position - int(struct.unpack_from("<i", self.data, self.position)[0])
        size = struct.unpack_from("<H", self.data, layout)[0]
        entry = 4 + 2 * slot
        offset = struct.unpack_from("<H", self.data, layout + entry)[0] if entry < size else 0
        return self.position + offset if offset else 0

    def _follow(self, position: int) -> int:
        return position + int(struct.unpack_from("<I", self.data, position)[0])

    def _vector(self, slot: int) -> tuple[int, int]:
        """Return a vector's length and the position of its first item."""
        field = self._field(slot)
        if not field:
            return 0, 0
        start = self._follow(field)
        return struct.unpack_from("<I", self.data, start)[0], start + 4

    def number(self, slot: int, code: str) -> int:
        field = self._field(slot)
        return int(struct.unpack_from("<" + code, self.data, field)[0]) if field else 0

    def raw(self, slot: int) -> bytes:
        count, start = self._vector(slot)
        return self.data[start : start + count]

    def text(self, slot: int) -> str:
        return self.raw(slot).decode()

    def floats(self, slot: int) -> tuple[float, ...]:
        count, start = self._vector(slot)
        return struct.unpack_from(f"<{count}f", self.data, start)

    def table(self, slot: int) -> _Table:
        return _Table(self.data, self._follow(self._field(slot)))

    def tables(self, slot: int) -> list[_Table]:
        count, start = self._vector(slot)
        return [_Table(self.data, self._follow(start + 4 * i)) for i in range(count)]
