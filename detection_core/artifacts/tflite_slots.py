"""Slots of the tables in a TensorFlow Lite file's metadata: fields by their names in the schema.

No locked dependency has generated classes for these schemas. They are TensorFlow Lite Support's
metadata_schema.fbs, `M001`, and from `ObjectDetectorOptions` on MediaPipe's
object_detector_metadata_schema.fbs, `V001`. Schemas only append fields, so slots are stable. Only the slots
used here are listed.
"""

from __future__ import annotations

from enum import IntEnum

METADATA_IDENTIFIER = b"M001"
DETECTOR_IDENTIFIER = b"V001"

# The root of the metadata, and the metadata of a graph.
ModelMetadata = IntEnum("ModelMetadata", {"NAME": 0, "SUBGRAPH_METADATA": 3, "MIN_PARSER_VERSION": 7})
SubGraphMetadata = IntEnum(
    "SubGraphMetadata",
    {
        "INPUT_TENSOR_METADATA": 2,
        "OUTPUT_TENSOR_METADATA": 3,
        "OUTPUT_TENSOR_GROUPS": 8,
        "CUSTOM_METADATA": 9,
    },
)
CustomMetadata = IntEnum("CustomMetadata", {"NAME": 0, "DATA": 1})
# An input or an output. The properties of its content are a union of three tables.
TensorMetadata = IntEnum(
    "TensorMetadata", {"NAME": 0, "CONTENT": 3, "PROCESS_UNITS": 4, "ASSOCIATED_FILES": 6}
)
Content = IntEnum("Content", {"PROPERTIES_TYPE": 0, "PROPERTIES": 1, "RANGE": 2})
ContentProperties = IntEnum("ContentProperties", {"FEATURE": 1, "IMAGE": 2, "BOUNDING_BOX": 3})
ImageProperties = IntEnum("ImageProperties", {"COLOR_SPACE": 0})
BoundingBoxProperties = IntEnum("BoundingBoxProperties", {"INDEX": 0, "TYPE": 1})
ValueRange = IntEnum("ValueRange", {"MIN": 0, "MAX": 1})  # first and last dimension of a content
# How a tensor is processed; member 1 of the options' union is `NormalizationOptions`: (pixel - mean) / std.
ProcessUnit = IntEnum("ProcessUnit", {"OPTIONS_TYPE": 0, "OPTIONS": 1})
NormalizationOptions = IntEnum("NormalizationOptions", {"MEAN": 0, "STD": 1})
ScoreThresholdingOptions = IntEnum("ScoreThresholdingOptions", {"GLOBAL_SCORE_THRESHOLD": 0})
AssociatedFile = IntEnum("AssociatedFile", {"NAME": 0, "TYPE": 2})  # in the archive after the model
TensorGroup = IntEnum("TensorGroup", {"NAME": 0, "TENSOR_NAMES": 1})

# The root of MediaPipe's metadata of a detector without post-processing: normalised anchors, and how codes
# become boxes.
ObjectDetectorOptions = IntEnum(
    "ObjectDetectorOptions",
    {"MIN_PARSER_VERSION": 0, "SSD_ANCHORS_OPTIONS": 1, "TENSORS_DECODING_OPTIONS": 2},
)
SsdAnchorsOptions = IntEnum("SsdAnchorsOptions", {"FIXED_ANCHORS_SCHEMA": 0})
FixedAnchorsSchema = IntEnum("FixedAnchorsSchema", {"ANCHORS": 0})
FixedAnchor = IntEnum("FixedAnchor", {"X_CENTER": 0, "Y_CENTER": 1, "WIDTH": 2, "HEIGHT": 3})
TensorsDecodingOptions = IntEnum(
    "TensorsDecodingOptions",
    {
        "NUM_CLASSES": 0,
        "NUM_BOXES": 1,
        "NUM_COORDS": 2,
        "NUM_VALUES_PER_KEYPOINT": 5,
        "X_SCALE": 6,
        "Y_SCALE": 7,
        "W_SCALE": 8,
        "H_SCALE": 9,
        "APPLY_EXPONENTIAL_ON_BOX_SIZE": 10,
        "SIGMOID_SCORE": 11,
    },
)

NORMALIZATION_OPTIONS, SCORE_THRESHOLDING_OPTIONS = 1, 3
"""Members of the union of a `ProcessUnit`."""
TENSOR_AXIS_LABELS, TENSOR_VALUE_LABELS = 2, 3
"""`AssociatedFileType` of labels for the positions along an axis, and for the classes."""
RGB = 1
"""`ColorSpaceType`."""
BOUNDARIES = 1
"""`BoundingBoxType` of boxes given by their edges."""
