"""Write the standard metadata of a TensorFlow Lite detector, with the label file."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.tools.flatbuffer_utils import convert_object_to_bytearray

from detection_core.artifacts import tflite_metadata as slots
from detection_core.artifacts.tflite_metadata import (
    DECODING_NAME,
    LABEL_FILE,
    METADATA_NAME,
    POST_PROCESS,
    BoxDecoding,
    TFLiteDescription,
)
from detection_core.artifacts.tflite_provenance import archive
from detection_core.exporters.signatures import TFLITE_KEYPOINT_OUTPUTS, TFLITE_OUTPUTS

# Task libraries find a detector's outputs by these names; boxes are left, top, right, bottom.
OUTPUT_NAMES = {
    "boxes": "location",
    "classes": "category",
    "scores": "score",
    "count": "number of detections",
    "codes": "location",
    "raw_scores": "score",
    "keypoints": "keypoints",
    "keypoint_scores": "keypoint scores",
}
# Outputs with the label file: it names their values, or positions along their last axis.
LABELLED = {"classes": slots.TENSOR_VALUE_LABELS, "raw_scores": slots.TENSOR_AXIS_LABELS}
BOX_ORDER = (1, 0, 3, 2)

Field = tuple[int, str, Any]


# Outputs of a file without post-processing, by their names in its signature.
RAW_OUTPUTS = {"location": "codes", "score": "raw_scores"}


def add_description(
    content: bytes, description: TFLiteDescription, decoding: BoxDecoding | None = None
) -> bytes:
    """Return the file with metadata and label file added.

    Args:
        content: a TensorFlow Lite file without metadata, with the signature of `TFLITE_OUTPUTS` or
            `TFLITE_KEYPOINT_OUTPUTS` or, without post-processing, of `RAW_OUTPUTS`.
        description: contents of the metadata.
        decoding: box decoding, for a file without post-processing.
    """
    model = schema.ModelT.InitFromPackedBuf(content, 0)
    signature = model.signatureDefs[0].outputs
    whole = TFLITE_OUTPUTS if len(signature) == len(TFLITE_OUTPUTS) else TFLITE_KEYPOINT_OUTPUTS
    names = whole if decoding is None else RAW_OUTPUTS
    by_tensor = {o.tensorIndex: names[o.name.decode()] for o in signature}
    outputs = [by_tensor[index] for index in model.subgraphs[0].outputs]
    buffer, entry = schema.BufferT(), schema.MetadataT()
    buffer.data = np.frombuffer(_Writer().model_metadata(description, outputs, decoding), np.uint8)
    model.buffers.append(buffer)
    entry.name, entry.buffer = METADATA_NAME, len(model.buffers) - 1
    model.metadata = [*(model.metadata or []), entry]
    entries = {LABEL_FILE: "".join(f"{label}\n" for label in description.labels).encode()}
    if decoding is not None:
        entries[POST_PROCESS.name] = POST_PROCESS.format(decoding.post_process).encode()
    return bytes(convert_object_to_bytearray(model)) + archive(entries)


class _Writer:
    """Builds the metadata's flatbuffer, inner tables first."""

    def __init__(self) -> None:
        self._builder = flatbuffers.Builder(1024)

    def model_metadata(
        self, description: TFLiteDescription, outputs: Sequence[str], decoding: BoxDecoding | None
    ) -> bytes:
        inputs = self._tables([self._image(description)])
        of_outputs = self._tables([self._output(name, description.score_threshold) for name in outputs])
        fields: list[Field] = [
            (slots.SubGraphMetadata.INPUT_TENSOR_METADATA, "offset", inputs),
            (slots.SubGraphMetadata.OUTPUT_TENSOR_METADATA, "offset", of_outputs),
        ]
        if decoding is None:
            groups = self._tables([self._group()])
            fields.append((slots.SubGraphMetadata.OUTPUT_TENSOR_GROUPS, "offset", groups))
        else:
            custom = self._tables([self._custom(decoding)])
            fields.append((slots.SubGraphMetadata.CUSTOM_METADATA, "offset", custom))
        graph = self._table(*fields)
        root = self._table(
            (slots.ModelMetadata.NAME, "offset", self._text(description.name)),
            (slots.ModelMetadata.SUBGRAPH_METADATA, "offset", self._tables([graph])),
            (slots.ModelMetadata.MIN_PARSER_VERSION, "offset", self._text("1.2.0")),
        )
        self._builder.Finish(root, slots.METADATA_IDENTIFIER)
        return bytes(self._builder.Output())

    def _image(self, description: TFLiteDescription) -> int:
        normalisation = self._table(
            (slots.NormalizationOptions.MEAN, "offset", self._floats(description.mean)),
            (slots.NormalizationOptions.STD, "offset", self._floats(description.std)),
        )
        unit = self._table(
            (slots.ProcessUnit.OPTIONS_TYPE, "uint8", slots.NORMALIZATION_OPTIONS),
            (slots.ProcessUnit.OPTIONS, "offset", normalisation),
        )
        pixels = self._table((slots.ImageProperties.COLOR_SPACE, "int8", slots.RGB))
        content = self._table(
            (slots.Content.PROPERTIES_TYPE, "uint8", slots.ContentProperties.IMAGE),
            (slots.Content.PROPERTIES, "offset", pixels),
        )
        return self._table(
            (slots.TensorMetadata.NAME, "offset", self._text("image")),
            (slots.TensorMetadata.CONTENT, "offset", content),
            (slots.TensorMetadata.PROCESS_UNITS, "offset", self._tables([unit])),
        )

    def _custom(self, decoding: BoxDecoding) -> int:
        data = _Writer().detector_metadata(decoding)
        self._builder.StartVector(1, len(data), 16)
        self._builder.head -= len(data)
        self._builder.Bytes[self._builder.head : self._builder.head + len(data)] = data
        vector = int(self._builder.EndVector())
        return self._table(
            (slots.CustomMetadata.NAME, "offset", self._text(DECODING_NAME)),
            (slots.CustomMetadata.DATA, "offset", vector),
        )

    def detector_metadata(self, decoding: BoxDecoding) -> bytes:
        """Return MediaPipe's record of the output decoding."""
        fixed = slots.FixedAnchor
        order = (fixed.Y_CENTER, fixed.X_CENTER, fixed.HEIGHT, fixed.WIDTH)
        anchors = [
            self._table(*((slot, "float32", value) for slot, value in zip(order, row, strict=True)))
            for row in decoding.anchors
        ]
        listed = self._table((slots.FixedAnchorsSchema.ANCHORS, "offset", self._tables(anchors)))
        ssd = self._table((slots.SsdAnchorsOptions.FIXED_ANCHORS_SCHEMA, "offset", listed))
        names = slots.TensorsDecodingOptions
        scales = (names.Y_SCALE, names.X_SCALE, names.H_SCALE, names.W_SCALE)
        wanted = decoding.post_process
        options = self._table(
            (names.NUM_CLASSES, "int32", wanted.num_classes),
            (names.NUM_BOXES, "int32", len(decoding.anchors)),
            (names.NUM_COORDS, "int32", 4),
            (names.NUM_VALUES_PER_KEYPOINT, "int32", 2),  # MediaPipe aborts the process for another number
            *((slot, "float32", scale) for slot, scale in zip(scales, wanted.scales, strict=True)),
            (names.APPLY_EXPONENTIAL_ON_BOX_SIZE, "uint8", 1),
            (names.SIGMOID_SCORE, "uint8", int(decoding.sigmoid)),
        )
        root = self._table(
            (slots.ObjectDetectorOptions.MIN_PARSER_VERSION, "offset", self._text("1.0.0")),
            (slots.ObjectDetectorOptions.SSD_ANCHORS_OPTIONS, "offset", ssd),
            (slots.ObjectDetectorOptions.TENSORS_DECODING_OPTIONS, "offset", options),
        )
        self._builder.Finish(root, slots.DETECTOR_IDENTIFIER)
        return bytes(self._builder.Output())

    def _output(self, name: str, score_threshold: float) -> int:
        properties: dict[str, tuple[int, Callable[[], int]]] = {
            "boxes": (slots.ContentProperties.BOUNDING_BOX, self._box_order),
            "codes": (slots.ContentProperties.BOUNDING_BOX, self._box_order),
        }
        kind, make = properties.get(name, (slots.ContentProperties.FEATURE, self._table))
        fields: list[Field] = [
            (slots.Content.PROPERTIES_TYPE, "uint8", kind),
            (slots.Content.PROPERTIES, "offset", make()),
        ]
        if name not in (
            "count",
            "keypoints",
            "keypoint_scores",
            *RAW_OUTPUTS.values(),
        ):  # one entry a detection, along the third dimension of the boxes' tensor
            along = self._table((slots.ValueRange.MIN, "int32", 2), (slots.ValueRange.MAX, "int32", 2))
            fields.append((slots.Content.RANGE, "offset", along))
        content = self._table(*fields)
        named: list[Field] = [
            (slots.TensorMetadata.NAME, "offset", self._text(OUTPUT_NAMES[name])),
            (slots.TensorMetadata.CONTENT, "offset", content),
        ]
        if name in LABELLED:
            file = self._table(
                (slots.AssociatedFile.NAME, "offset", self._text(LABEL_FILE)),
                (slots.AssociatedFile.TYPE, "int8", LABELLED[name]),
            )
            named.append((slots.TensorMetadata.ASSOCIATED_FILES, "offset", self._tables([file])))
        if name in ("scores", "raw_scores"):
            # Written even if 0: it is filled in after the measurement.
            field = slots.ScoreThresholdingOptions.GLOBAL_SCORE_THRESHOLD
            least = self._table((field, "whole_float32", score_threshold))
            unit = self._table(
                (slots.ProcessUnit.OPTIONS_TYPE, "uint8", slots.SCORE_THRESHOLDING_OPTIONS),
                (slots.ProcessUnit.OPTIONS, "offset", least),
            )
            named.append((slots.TensorMetadata.PROCESS_UNITS, "offset", self._tables([unit])))
        return self._table(*named)

    def _box_order(self) -> int:
        order = self._vector(BOX_ORDER, "uint32", 4)
        return self._table(
            (slots.BoundingBoxProperties.INDEX, "offset", order),
            (slots.BoundingBoxProperties.TYPE, "int8", slots.BOUNDARIES),
        )

    def _group(self) -> int:
        names = [self._text(OUTPUT_NAMES[name]) for name in ("boxes", "classes", "scores")]
        return self._table(
            (slots.TensorGroup.NAME, "offset", self._text("detection_result")),
            (slots.TensorGroup.TENSOR_NAMES, "offset", self._tables(names)),
        )

    def _table(self, *fields: Field) -> int:
        builder = self._builder
        prepend = {
            "offset": lambda slot, value: builder.PrependUOffsetTRelativeSlot(slot, value, 0),
            "uint8": lambda slot, value: builder.PrependUint8Slot(slot, value, 0),
            "int8": lambda slot, value: builder.PrependInt8Slot(slot, value, 0),
            "float32": lambda slot, value: builder.PrependFloat32Slot(slot, value, 0.0),
            "whole_float32": lambda slot, value: builder.PrependFloat32Slot(slot, value, math.nan),
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
