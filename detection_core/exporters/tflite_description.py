"""Write the standard metadata of a TensorFlow Lite detector, with the label file."""

from collections.abc import Sequence
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.tools.flatbuffer_utils import convert_object_to_bytearray
from flatbuffers import number_types

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
# Bytes that the schema aligns custom metadata to.
_ALIGNMENT = 16

# A table by its slots. Values: numpy scalars and arrays, texts, bytes, tables, lists of tables or texts.
Table = dict[int, Any]
# Outputs with one entry a detection, along the third dimension of the boxes' tensor.
LISTED = ("boxes", "classes", "scores")
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
    buffer.data = np.frombuffer(model_metadata(description, outputs, decoding), np.uint8)
    model.buffers.append(buffer)
    entry.name, entry.buffer = METADATA_NAME, len(model.buffers) - 1
    model.metadata = [*(model.metadata or []), entry]
    entries = {LABEL_FILE: "".join(f"{label}\n" for label in description.labels).encode()}
    if decoding is not None:
        entries[POST_PROCESS.name] = POST_PROCESS.format(decoding.post_process).encode()
    return bytes(convert_object_to_bytearray(model)) + archive(entries)


def model_metadata(
    description: TFLiteDescription, outputs: Sequence[str], decoding: BoxDecoding | None
) -> bytes:
    """Return the metadata of a file with these outputs, keys of `OUTPUT_NAMES`, in order."""
    graph = slots.SubGraphMetadata
    return _flatbuffer(
        {
            slots.ModelMetadata.NAME: description.name,
            slots.ModelMetadata.SUBGRAPH_METADATA: [
                {
                    graph.INPUT_TENSOR_METADATA: [_image(description)],
                    graph.OUTPUT_TENSOR_METADATA: [_output(o, description.score_threshold) for o in outputs],
                    **_outputs_together(decoding),
                }
            ],
            slots.ModelMetadata.MIN_PARSER_VERSION: "1.2.0",
        },
        slots.METADATA_IDENTIFIER,
    )


def _image(description: TFLiteDescription) -> Table:
    normalisation: Table = {
        slots.NormalizationOptions.MEAN: np.asarray(description.mean, np.float32),
        slots.NormalizationOptions.STD: np.asarray(description.std, np.float32),
    }
    pixels: Table = {slots.ImageProperties.COLOR_SPACE: np.int8(slots.RGB)}
    return {
        slots.TensorMetadata.NAME: "image",
        slots.TensorMetadata.CONTENT: _content(slots.ContentProperties.IMAGE, pixels),
        slots.TensorMetadata.PROCESS_UNITS: [_process_unit(slots.NORMALIZATION_OPTIONS, normalisation)],
    }


def _content(kind: int, properties: Table) -> Table:
    return {slots.Content.PROPERTIES_TYPE: np.uint8(kind), slots.Content.PROPERTIES: properties}


def _process_unit(kind: int, options: Table) -> Table:
    return {slots.ProcessUnit.OPTIONS_TYPE: np.uint8(kind), slots.ProcessUnit.OPTIONS: options}


def _output(name: str, score_threshold: float) -> Table:
    content = _content(slots.ContentProperties.FEATURE, {})
    if name in ("boxes", "codes"):
        order: Table = {
            slots.BoundingBoxProperties.INDEX: np.array(BOX_ORDER, np.uint32),
            slots.BoundingBoxProperties.TYPE: np.int8(slots.BOUNDARIES),
        }
        content = _content(slots.ContentProperties.BOUNDING_BOX, order)
    if name in LISTED:
        content[slots.Content.RANGE] = dict.fromkeys(slots.ValueRange, np.int32(2))
    found: Table = {slots.TensorMetadata.NAME: OUTPUT_NAMES[name], slots.TensorMetadata.CONTENT: content}
    if name in LABELLED:
        file = {slots.AssociatedFile.NAME: LABEL_FILE, slots.AssociatedFile.TYPE: np.int8(LABELLED[name])}
        found[slots.TensorMetadata.ASSOCIATED_FILES] = [file]
    if name in ("scores", "raw_scores"):
        # Written even if 0: it is filled in after the measurement.
        least: Table = {slots.ScoreThresholdingOptions.GLOBAL_SCORE_THRESHOLD: np.float32(score_threshold)}
        found[slots.TensorMetadata.PROCESS_UNITS] = [_process_unit(slots.SCORE_THRESHOLDING_OPTIONS, least)]
    return found


def _outputs_together(decoding: BoxDecoding | None) -> Table:
    """Return what belongs to several outputs: the group of a detection's, or how to decode the boxes."""
    if decoding is None:
        names = [OUTPUT_NAMES[name] for name in LISTED]
        group = {slots.TensorGroup.NAME: "detection_result", slots.TensorGroup.TENSOR_NAMES: names}
        return {slots.SubGraphMetadata.OUTPUT_TENSOR_GROUPS: [group]}
    data = _flatbuffer(_detector_metadata(decoding), slots.DETECTOR_IDENTIFIER)
    custom = {slots.CustomMetadata.NAME: DECODING_NAME, slots.CustomMetadata.DATA: data}
    return {slots.SubGraphMetadata.CUSTOM_METADATA: [custom]}


def _detector_metadata(decoding: BoxDecoding) -> Table:
    """Return MediaPipe's record of the output decoding."""
    fixed, names, wanted = slots.FixedAnchor, slots.TensorsDecodingOptions, decoding.post_process
    order = (fixed.Y_CENTER, fixed.X_CENTER, fixed.HEIGHT, fixed.WIDTH)
    anchors = [dict(zip(order, map(np.float32, row), strict=True)) for row in decoding.anchors]
    scales = (names.Y_SCALE, names.X_SCALE, names.H_SCALE, names.W_SCALE)
    return {
        slots.ObjectDetectorOptions.MIN_PARSER_VERSION: "1.0.0",
        slots.ObjectDetectorOptions.SSD_ANCHORS_OPTIONS: {
            slots.SsdAnchorsOptions.FIXED_ANCHORS_SCHEMA: {slots.FixedAnchorsSchema.ANCHORS: anchors}
        },
        slots.ObjectDetectorOptions.TENSORS_DECODING_OPTIONS: {
            names.NUM_CLASSES: np.int32(wanted.num_classes),
            names.NUM_BOXES: np.int32(len(anchors)),
            names.NUM_COORDS: np.int32(4),
            names.NUM_VALUES_PER_KEYPOINT: np.int32(2),  # MediaPipe aborts the process for another number
            **dict(zip(scales, map(np.float32, wanted.scales), strict=True)),
            names.APPLY_EXPONENTIAL_ON_BOX_SIZE: np.uint8(1),
            names.SIGMOID_SCORE: np.uint8(decoding.sigmoid),
        },
    }


_NUMBERS: dict[Any, Any] = {
    np.uint8: number_types.Uint8Flags,
    np.int8: number_types.Int8Flags,
    np.int32: number_types.Int32Flags,
    np.float32: number_types.Float32Flags,
}


def _flatbuffer(root: Table, identifier: bytes) -> bytes:
    builder = flatbuffers.Builder(1024)
    builder.Finish(_write(builder, root), identifier)
    return bytes(builder.Output())


def _write(builder: Any, value: Any) -> int:
    """Write what a field refers to, inner parts first, and return its offset."""
    if isinstance(value, str):
        return int(builder.CreateString(value))
    if isinstance(value, bytes):
        builder.Prep(_ALIGNMENT, len(value))
        return int(builder.CreateByteVector(value))
    if isinstance(value, np.ndarray):
        return int(builder.CreateNumpyVector(value))
    if isinstance(value, list):
        offsets = [_write(builder, item) for item in value]
        builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            builder.PrependUOffsetTRelative(offset)
        return int(builder.EndVector())
    fields = {s: each if isinstance(each, np.generic) else _write(builder, each) for s, each in value.items()}
    builder.StartObject(1 + max(fields, default=0))
    for slot, field in fields.items():
        if isinstance(field, np.generic):
            builder.PrependSlot(_NUMBERS[type(field)], slot, field, None)
        else:
            builder.PrependUOffsetTRelativeSlot(slot, field, 0)
    return int(builder.EndObject())
