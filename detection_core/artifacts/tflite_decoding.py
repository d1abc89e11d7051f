"""How box codes and scores of a TensorFlow Lite file without post-processing become boxes.

The record is MediaPipe's (`DETECTOR_METADATA`, a flatbuffer of object_detector_metadata_schema.fbs, V001), in
the file's standard metadata.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from ai_edge_litert.schema_py_generated import Model
from flatbuffers import number_types as types

from detection_core.artifacts import tflite_slots as slots
from detection_core.artifacts.flatbuffer_table import FlatbufferError, Table, read_root
from detection_core.artifacts.tflite_file import damaged, verify_tflite
from detection_core.artifacts.tflite_metadata import metadata_graphs

DECODING_NAME = "DETECTOR_METADATA"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class BoxDecoding:
    """What a reader of a file without post-processing has to know.

    Attributes:
        anchors: float32 [A, 4], centre y and x, height and width, normalised.
        scales: of y, x, height and width; box codes are divided by them.
        num_classes: C, of the scores.
        sigmoid: whether the scores are the sigmoid of what the file gives.
    """

    anchors: np.ndarray
    scales: tuple[float, float, float, float]
    num_classes: int
    sigmoid: bool


def read_decoding(content: bytes, *, where: str = "") -> BoxDecoding | None:
    """Read how a file's outputs are decoded; None where its metadata do not say so.

    Args:
        content: a TensorFlow Lite file.
        where: its path, for errors.

    Raises:
        ModelError: when it is no TensorFlow Lite file or a damaged one.
    """
    verify_tflite(content, where=where)
    try:
        for graph in metadata_graphs(read_root(Model, content)):
            for entry in graph.tables(slots.SubGraphMetadata.CUSTOM_METADATA):
                if entry.text(slots.CustomMetadata.NAME) == DECODING_NAME:
                    return _decoding(Table.root(entry.raw(slots.CustomMetadata.DATA), entry.allowance))
    except FlatbufferError as error:
        raise damaged(error, where) from error
    return None


def _decoding(detector: Table) -> BoxDecoding:
    anchors = (
        detector.table(slots.ObjectDetectorOptions.SSD_ANCHORS_OPTIONS)
        .table(slots.SsdAnchorsOptions.FIXED_ANCHORS_SCHEMA)
        .tables(slots.FixedAnchorsSchema.ANCHORS)
    )
    fields = slots.FixedAnchor
    order = (fields.Y_CENTER, fields.X_CENTER, fields.HEIGHT, fields.WIDTH)
    options = detector.table(slots.ObjectDetectorOptions.TENSORS_DECODING_OPTIONS)
    names = slots.TensorsDecodingOptions
    y, x, height, width = (
        options.number(slot, types.Float32Flags)
        for slot in (names.Y_SCALE, names.X_SCALE, names.H_SCALE, names.W_SCALE)
    )
    return BoxDecoding(
        anchors=np.array(
            [[anchor.number(slot, types.Float32Flags) for slot in order] for anchor in anchors], np.float32
        ),
        scales=(y, x, height, width),
        num_classes=options.number(names.NUM_CLASSES, types.Int32Flags),
        sigmoid=bool(options.number(names.SIGMOID_SCORE, types.Uint8Flags)),
    )
