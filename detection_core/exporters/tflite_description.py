"""Writing the standard metadata of a TensorFlow Lite detector, with the label file."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Sequence
from typing import Any

import flatbuffers  # type: ignore[import-untyped]

from detection_core.artifacts.tflite_metadata import LABEL_FILE, METADATA_NAME, TFLiteDescription
from detection_core.exporters.signatures import TFLITE_OUTPUTS

IDENTIFIER = b"M001"
MODEL_IDENTIFIER = b"TFL3"
# A zip entry carries a time; a fixed one keeps equal models equal.
ZIP_TIME = (1980, 1, 1, 0, 0, 0)
VALUE_LABELS = 3
RGB = 1
FEATURE, IMAGE, BOUNDING_BOX = 1, 2, 3
BOUNDARIES = 1
# Task libraries find a detector's outputs by these names; the order of the box is left, top, right, bottom.
OUTPUT_NAMES = {
    "boxes": "location",
    "classes": "category",
    "scores": "score",
    "count": "number of detections",
}
BOX_ORDER = (1, 0, 3, 2)

Field = tuple[int, str, Any]


def add_description(content: bytes, description: TFLiteDescription) -> bytes:
    """Return the file with metadata and label file added.

    Args:
        content: a TensorFlow Lite file without metadata, with the signature of `TFLITE_OUTPUTS`.
        description: what to say.
    """
    from tensorflow.lite.python import schema_py_generated as schema

    model = schema.ModelT.InitFromPackedBuf(content, 0)
    by_tensor = {o.tensorIndex: TFLITE_OUTPUTS[o.name.decode()] for o in model.signatureDefs[0].outputs}
    outputs = [by_tensor[index] for index in model.subgraphs[0].outputs]
    buffer, entry = schema.BufferT(), schema.MetadataT()
    buffer.data = list(_Writer().model_metadata(description, outputs))
    model.buffers.append(buffer)
    entry.name, entry.buffer = METADATA_NAME, len(model.buffers) - 1
    model.metadata = [*(model.metadata or []), entry]
    builder = flatbuffers.Builder(len(content) + 4096)
    builder.Finish(model.Pack(builder), MODEL_IDENTIFIER)
    return bytes(builder.Output()) + _archive("".join(f"{label}\n" for label in description.labels))


def _archive(labels: str) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo(LABEL_FILE, ZIP_TIME), labels)
    return stream.getvalue()


class _Writer:
    """Builds the metadata's flatbuffer, inner tables first; slots are those of schema M001."""

    def __init__(self) -> None:
        self._builder = flatbuffers.Builder(1024)

    def model_metadata(self, description: TFLiteDescription, outputs: Sequence[str]) -> bytes:
        graph = self._table(
            (2, "offset", self._tables([self._image(description)])),
            (3, "offset", self._tables([self._output(name) for name in outputs])),
            (8, "offset", self._tables([self._group()])),
        )
        root = self._table(
            (0, "offset", self._text(description.name)),
            (3, "offset", self._tables([graph])),
            (7, "offset", self._text("1.2.0")),
        )
        self._builder.Finish(root, IDENTIFIER)
        return bytes(self._builder.Output())

    def _image(self, description: TFLiteDescription) -> int:
        normalisation = self._table(
            (0, "offset", self._floats(description.mean)), (1, "offset", self._floats(description.std))
        )
        unit = self._table((0, "uint8", 1), (1, "offset", normalisation))
        content = self._table((0, "uint8", IMAGE), (1, "offset", self._table((0, "int8", RGB))))
        return self._table(
            (0, "offset", self._text("image")),
            (3, "offset", content),
            (4, "offset", self._tables([unit])),
        )

    def _output(self, name: str) -> int:
        properties: dict[str, tuple[int, Callable[[], int]]] = {"boxes": (BOUNDING_BOX, self._box_order)}
        kind, make = properties.get(name, (FEATURE, self._table))
        fields: list[Field] = [(0, "uint8", kind), (1, "offset", make())]
        if name != "count":  # one entry a detection, along the third dimension of the boxes' tensor
            fields.append((2, "offset", self._table((0, "int32", 2), (1, "int32", 2))))
        content = self._table(*fields)
        named: list[Field] = [(0, "offset", self._text(OUTPUT_NAMES[name])), (3, "offset", content)]
        if name == "classes":
            file = self._table((0, "offset", self._text(LABEL_FILE)), (2, "int8", VALUE_LABELS))
            named.append((6, "offset", self._tables([file])))
        return self._table(*named)

    def _box_order(self) -> int:
        order = self._vector(BOX_ORDER, "uint32", 4)
        return self._table((0, "offset", order), (1, "int8", BOUNDARIES))

    def _group(self) -> int:
        names = [self._text(OUTPUT_NAMES[name]) for name in ("boxes", "classes", "scores")]
        return self._table((0, "offset", self._text("detection_result")), (1, "offset", self._tables(names)))

    def _table(self, *fields: Field) -> int:
        builder = self._builder
        prepend = {
            "offset": lambda slot, value: builder.PrependUOffsetTRelativeSlot(slot, value, 0),
            "uint8": lambda slot, value: builder.PrependUint8Slot(slot, value, 0),
            "int8": lambda slot, value: builder.PrependInt8Slot(slot, value, 0),
            "int32": lambda slot, value: builder.PrependInt32Slot(slot, value, 0),
        }
        builder.StartObject(1 + max((slot for slot, _, _ in fields), default=0))
        for slot, kind, value in fields:
            prepend[kind](slot, value)
        return int(builder.EndObject())

    def _vector(self, values: Sequence[Any], kind: str, size: int) -> int:
        builder = self._builder
        prepend = {
            "offset": builder.PrependUOffsetTRelative,
            "float32": builder.PrependFloat32,
            "uint32": builder.PrependUint32,
        }[kind]
        builder.StartVector(size, len(values), size)
        for value in reversed(values):
            prepend(value)
        return int(builder.EndVector())

    def _tables(self, tables: Sequence[int]) -> int:
        return self._vector(tables, "offset", 4)

    def _floats(self, values: Sequence[float]) -> int:
        return self._vector(values, "float32", 4)

    def _text(self, text: str) -> int:
        return int(self._builder.CreateString(text))
