"""Write the standard metadata of a TensorFlow Lite detector, with the label file."""

from collections.abc import Sequence
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.tools.flatbuffer_utils import convert_object_to_bytearray

from detection_core.artifacts.tflite_metadata import (
    BOUNDARIES,
    BOUNDING_BOX,
    DECODING_NAME,
    DETECTOR_IDENTIFIER,
    FEATURE,
    IMAGE,
    LABEL_FILE,
    LIST,
    METADATA_IDENTIFIER,
    METADATA_NAME,
    NORMALIZATION_OPTIONS,
    NUMBERS,
    POST_PROCESS,
    RGB,
    SCHEMA,
    SCORE_THRESHOLDING_OPTIONS,
    TENSOR_AXIS_LABELS,
    TENSOR_VALUE_LABELS,
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
LABELLED = {"classes": TENSOR_VALUE_LABELS, "raw_scores": TENSOR_AXIS_LABELS}
BOX_ORDER = (1, 0, 3, 2)
# Bytes that the schema aligns custom metadata to.
_ALIGNMENT = 16

# A table by its fields in `SCHEMA`.
Table = dict[str, Any]
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
    graph = {
        "input_tensor_metadata": [_image(description)],
        "output_tensor_metadata": [_output(name, description.score_threshold) for name in outputs],
        **_outputs_together(decoding),
    }
    metadata = {"name": description.name, "subgraph_metadata": [graph], "min_parser_version": "1.2.0"}
    return _flatbuffer("ModelMetadata", metadata, METADATA_IDENTIFIER)


def _image(description: TFLiteDescription) -> Table:
    normalisation = {"mean": description.mean, "std": description.std}
    unit = {"options_type": NORMALIZATION_OPTIONS, "normalization_options": normalisation}
    content = {"properties_type": IMAGE, "image_properties": {"color_space": RGB}}
    return {"name": "image", "content": content, "process_units": [unit]}


def _output(name: str, score_threshold: float) -> Table:
    content: Table = {"properties_type": FEATURE, "feature_properties": {}}
    if name in ("boxes", "codes"):
        order = {"index": BOX_ORDER, "type": BOUNDARIES}
        content = {"properties_type": BOUNDING_BOX, "bounding_box_properties": order}
    if name in LISTED:
        content["range"] = {"min": 2, "max": 2}
    found: Table = {"name": OUTPUT_NAMES[name], "content": content}
    if name in LABELLED:
        found["associated_files"] = [{"name": LABEL_FILE, "type": LABELLED[name]}]
    if name in ("scores", "raw_scores"):
        # Written even if 0: it is filled in after the measurement.
        least = {"global_score_threshold": score_threshold}
        unit = {"options_type": SCORE_THRESHOLDING_OPTIONS, "score_thresholding_options": least}
        found["process_units"] = [unit]
    return found


def _outputs_together(decoding: BoxDecoding | None) -> Table:
    """Return what belongs to several outputs: the group of a detection's, or how to decode the boxes."""
    if decoding is None:
        names = [OUTPUT_NAMES[name] for name in LISTED]
        return {"output_tensor_groups": [{"name": "detection_result", "tensor_names": names}]}
    data = _flatbuffer("ObjectDetectorOptions", _detector_metadata(decoding), DETECTOR_IDENTIFIER)
    return {"custom_metadata": [{"name": DECODING_NAME, "data": data}]}


def _detector_metadata(decoding: BoxDecoding) -> Table:
    """Return MediaPipe's record of the output decoding."""
    order, scales = ("y_center", "x_center", "height", "width"), ("y_scale", "x_scale", "h_scale", "w_scale")
    anchors = [dict(zip(order, row, strict=True)) for row in decoding.anchors]
    return {
        "min_parser_version": "1.0.0",
        "ssd_anchors_options": {"fixed_anchors_schema": {"anchors": anchors}},
        "tensors_decoding_options": {
            "num_classes": decoding.post_process.num_classes,
            "num_boxes": len(anchors),
            "num_coords": 4,
            "num_values_per_keypoint": 2,  # MediaPipe aborts the process for another number
            **dict(zip(scales, decoding.post_process.scales, strict=True)),
            "apply_exponential_on_box_size": 1,
            "sigmoid_score": decoding.sigmoid,
        },
    }


def _flatbuffer(kind: str, root: Table, identifier: bytes) -> bytes:
    builder = flatbuffers.Builder(1024)
    builder.Finish(_write(builder, kind, root), identifier)
    return bytes(builder.Output())


def _write(builder: Any, kind: str, value: Any) -> int:
    """Write what a field of a type refers to, inner parts first, and return its offset."""
    if kind == "text":
        return int(builder.CreateString(value))
    if kind == "uint8s":
        builder.Prep(_ALIGNMENT, len(value))
        return int(builder.CreateByteVector(value))
    if kind in ("float32s", "uint32s"):
        return int(builder.CreateNumpyVector(np.asarray(value, kind.removesuffix("s"))))
    if kind == "texts" or kind.endswith(LIST):
        one = "text" if kind == "texts" else kind.removesuffix(LIST)
        offsets = [_write(builder, one, item) for item in value]
        builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            builder.PrependUOffsetTRelative(offset)
        return int(builder.EndVector())
    fields = [(*SCHEMA[kind][name], each) for name, each in value.items()]
    written = [(s, of, each if of in NUMBERS else _write(builder, of, each)) for s, of, each in fields]
    builder.StartObject(1 + max((slot for slot, _, _ in fields), default=0))
    for slot, of, field in written:
        if of in NUMBERS:
            builder.PrependSlot(NUMBERS[of], slot, field, None)
        else:
            builder.PrependUOffsetTRelativeSlot(slot, field, 0)
    return int(builder.EndObject())
