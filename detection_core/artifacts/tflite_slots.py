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


class ModelMetadata(IntEnum):
    """The root of the metadata."""

    NAME = 0
    SUBGRAPH_METADATA = 3
    MIN_PARSER_VERSION = 7


class SubGraphMetadata(IntEnum):
    """Metadata of a graph."""

    INPUT_TENSOR_METADATA = 2
    OUTPUT_TENSOR_METADATA = 3
    OUTPUT_TENSOR_GROUPS = 8
    CUSTOM_METADATA = 9


class CustomMetadata(IntEnum):
    """Metadata of another schema."""

    NAME = 0
    DATA = 1


class TensorMetadata(IntEnum):
    """Metadata of an input or an output."""

    NAME = 0
    CONTENT = 3
    PROCESS_UNITS = 4
    ASSOCIATED_FILES = 6


class Content(IntEnum):
    """Content of a tensor; its properties are a union, `ContentProperties`."""

    PROPERTIES_TYPE = 0
    PROPERTIES = 1
    RANGE = 2


class ContentProperties(IntEnum):
    """Members of the union of a `Content`."""

    FEATURE = 1
    IMAGE = 2
    BOUNDING_BOX = 3


class ImageProperties(IntEnum):
    """How pixels are stored."""

    COLOR_SPACE = 0


class BoundingBoxProperties(IntEnum):
    """How boxes are stored."""

    INDEX = 0
    TYPE = 1


class ValueRange(IntEnum):
    """First and last dimension of a content."""

    MIN = 0
    MAX = 1


class ProcessUnit(IntEnum):
    """How a tensor is processed; member 1 of its options' union is `NormalizationOptions`."""

    OPTIONS_TYPE = 0
    OPTIONS = 1


class NormalizationOptions(IntEnum):
    """The network takes (pixel - mean) / std."""

    MEAN = 0
    STD = 1


class AssociatedFile(IntEnum):
    """A file in the archive after the model."""

    NAME = 0
    TYPE = 2


class TensorGroup(IntEnum):
    """Tensors that belong together."""

    NAME = 0
    TENSOR_NAMES = 1


class ScoreThresholdingOptions(IntEnum):
    """Default minimum score of shown detections."""

    GLOBAL_SCORE_THRESHOLD = 0


class ObjectDetectorOptions(IntEnum):
    """The root of MediaPipe's metadata of a detector without post-processing."""

    MIN_PARSER_VERSION = 0
    SSD_ANCHORS_OPTIONS = 1
    TENSORS_DECODING_OPTIONS = 2


class SsdAnchorsOptions(IntEnum):
    """Where anchors come from."""

    FIXED_ANCHORS_SCHEMA = 0


class FixedAnchorsSchema(IntEnum):
    """A list of anchors."""

    ANCHORS = 0


class FixedAnchor(IntEnum):
    """An anchor, normalised."""

    X_CENTER = 0
    Y_CENTER = 1
    WIDTH = 2
    HEIGHT = 3


class TensorsDecodingOptions(IntEnum):
    """How codes become boxes."""

    NUM_CLASSES = 0
    NUM_BOXES = 1
    NUM_COORDS = 2
    NUM_VALUES_PER_KEYPOINT = 5
    X_SCALE = 6
    Y_SCALE = 7
    W_SCALE = 8
    H_SCALE = 9
    APPLY_EXPONENTIAL_ON_BOX_SIZE = 10
    SIGMOID_SCORE = 11


NORMALIZATION_OPTIONS = 1
"""Member of the union of a `ProcessUnit`."""
SCORE_THRESHOLDING_OPTIONS = 3
"""Member of the union of a `ProcessUnit`."""
TENSOR_AXIS_LABELS = 2
"""`AssociatedFileType` of a file with a label for each position along an axis."""
TENSOR_VALUE_LABELS = 3
"""`AssociatedFileType` of a file with a label for each class."""
RGB = 1
"""`ColorSpaceType`."""
BOUNDARIES = 1
"""`BoundingBoxType` of boxes given by their edges."""
