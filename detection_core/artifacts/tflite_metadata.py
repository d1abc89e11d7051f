"""Read a TensorFlow Lite file's metadata: normalisation of the input, labels, and box decoding.

LiteRT's task libraries read them from a `TFLITE_METADATA` buffer and from a label file in a zip archive after
the model. The buffer is a flatbuffer of TensorFlow Lite Support's schema M001. Files without post-processing
also have MediaPipe's `DETECTOR_METADATA`, which defines how box codes become boxes
(object_detector_metadata_schema.fbs, V001).

No locked dependency has generated classes for these schemas, so fields are named by their slots here. Schemas
only append fields, so slots are stable. Slots behind the last one used are not listed.
"""

import contextlib
import dataclasses
import io
import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Any

from flatbuffers import number_types as types

from detection_core.artifacts.flatbuffer_table import FlatbufferError, Table, decoded, tables
from detection_core.artifacts.json_file import JsonFile
from detection_core.artifacts.tflite_file import checked_model
from detection_core.errors import ExportError, ModelError
from detection_core.ops.post_process_options import PostProcessOptions

METADATA_IDENTIFIER = b"M001"
DETECTOR_IDENTIFIER = b"V001"

# The root of the metadata, and the metadata of a graph.
ModelMetadata = IntEnum("ModelMetadata", {"NAME": 0, "SUBGRAPH_METADATA": 3, "MIN_PARSER_VERSION": 7})
SubGraphMetadata = IntEnum(
    "SubGraphMetadata",
    "NAME DESCRIPTION INPUT_TENSOR_METADATA OUTPUT_TENSOR_METADATA ASSOCIATED_FILES INPUT_PROCESS_UNITS"
    " OUTPUT_PROCESS_UNITS INPUT_TENSOR_GROUPS OUTPUT_TENSOR_GROUPS CUSTOM_METADATA",
    start=0,
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
    "ObjectDetectorOptions", "MIN_PARSER_VERSION SSD_ANCHORS_OPTIONS TENSORS_DECODING_OPTIONS", start=0
)
SsdAnchorsOptions = IntEnum("SsdAnchorsOptions", {"FIXED_ANCHORS_SCHEMA": 0})
FixedAnchorsSchema = IntEnum("FixedAnchorsSchema", {"ANCHORS": 0})
FixedAnchor = IntEnum("FixedAnchor", {"X_CENTER": 0, "Y_CENTER": 1, "WIDTH": 2, "HEIGHT": 3})
TensorsDecodingOptions = IntEnum(
    "TensorsDecodingOptions",
    "NUM_CLASSES NUM_BOXES NUM_COORDS KEYPOINT_COORD_OFFSET NUM_KEYPOINTS NUM_VALUES_PER_KEYPOINT X_SCALE"
    " Y_SCALE W_SCALE H_SCALE APPLY_EXPONENTIAL_ON_BOX_SIZE SIGMOID_SCORE",
    start=0,
)

NORMALIZATION_OPTIONS, SCORE_THRESHOLDING_OPTIONS = 1, 3
"""Members of the union of a `ProcessUnit`."""
TENSOR_AXIS_LABELS, TENSOR_VALUE_LABELS = 2, 3
"""`AssociatedFileType` of labels for the positions along an axis, and for the classes."""
RGB = 1
"""`ColorSpaceType`."""
BOUNDARIES = 1
"""`BoundingBoxType` of boxes given by their edges."""

METADATA_NAME = "TFLITE_METADATA"
LABEL_FILE = "labels.txt"
# A class name takes about 20 bytes; a small archive may expand to gigabytes.
MAX_ARCHIVED_BYTES = 2**22
_THRESHOLD = ScoreThresholdingOptions.GLOBAL_SCORE_THRESHOLD
_DAMAGED_ARCHIVE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    OSError,
    RuntimeError,  # encrypted archives; NotImplementedError for unknown compression is a subclass
    UnicodeDecodeError,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TFLiteDescription:
    """The metadata of a detector's file.

    Attributes:
        name: name of the model.
        mean: one per channel, or one for all; the network takes (pixel - mean) / std, pixels in 0..255.
        std: likewise.
        labels: names of classes 0, 1, ...; empty if the file has none.
        score_threshold: MediaPipe's default minimum score of detections; 0 shows all.
    """

    name: str
    mean: tuple[float, ...]
    std: tuple[float, ...]
    labels: tuple[str, ...]
    score_threshold: float = 0.0


def read_description(content: bytes, *, where: str = "") -> TFLiteDescription:
    """Read the input's normalisation and the labels; errors name the file `where`.

    Raises:
        ModelError: when it is not a TensorFlow Lite file, is damaged, has unreadable labels, or lacks
            metadata with a normalisation.
    """
    description = find_description(content, where=where)
    if description is not None:
        return description
    raise ModelError(
        "expected metadata with the input's normalisation, found none; export the file with `detflow export`,"
        " or add the metadata",
        where=where,
    )


def find_description(content: bytes, *, where: str = "") -> TFLiteDescription | None:
    """Read like `read_description`; return None without metadata of a normalisation.

    Raises:
        ModelError: when it is not a TensorFlow Lite file, is damaged, or has unreadable labels.
    """
    with checked_model(content, where=where) as model:
        options, name = _normalisation(model)
        if options is None:
            return None
        mean = options.floats(NormalizationOptions.MEAN)
        std = options.floats(NormalizationOptions.STD)
        labels = tuple((archived_text(content, ".txt", where=where) or "").splitlines())
        thresholds = (o.number(_THRESHOLD, types.Float32Flags) for o in _thresholdings(model))
        threshold = max(thresholds, default=0.0)
        return TFLiteDescription(name=name, mean=mean, std=std, labels=labels, score_threshold=threshold)


def with_score_threshold(content: bytes, threshold: float) -> bytes:
    """Return the file with a new score threshold in its metadata; all other bytes are unchanged.

    Raises:
        ModelError: when it is not a TensorFlow Lite file, is damaged, or has no field for the threshold.
    """
    changed = bytearray(content)  # the metadata below are a view of it
    with checked_model(changed) as model:
        thresholdings = [o for o in _thresholdings(model) if o.place(_THRESHOLD)]
    if not thresholdings:
        raise ModelError(
            "expected metadata with a score threshold, found none; export the file with `detflow export`"
        )
    for options in thresholdings:
        struct.pack_into("<f", options.Bytes, options.place(_THRESHOLD), threshold)
    return bytes(changed)


def read_tensor_names(content: bytes, *, where: str = "") -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Read the metadata's names of inputs and outputs, in order, if any; ModelError for a damaged file."""
    with checked_model(content, where=where) as model:
        inputs, outputs = (
            tuple(t.text(TensorMetadata.NAME) for g in metadata_graphs(model)[:1] for t in g.tables(slot))
            for slot in (SubGraphMetadata.INPUT_TENSOR_METADATA, SubGraphMetadata.OUTPUT_TENSOR_METADATA)
        )
        return inputs, outputs


def _normalisation(model: Any) -> tuple[Table | None, str]:
    """Return the options of the input's normalisation, and the model's name."""
    for metadata in _metadata(model):
        field = SubGraphMetadata.INPUT_TENSOR_METADATA
        inputs = [tensor for graph in _graphs(metadata)[:1] for tensor in graph.tables(field)[:1]]
        for options in _options(inputs, NORMALIZATION_OPTIONS):
            return options, metadata.text(ModelMetadata.NAME)
    return None, ""


def _thresholdings(model: Any) -> list[Table]:
    field = SubGraphMetadata.OUTPUT_TENSOR_METADATA
    outputs = [tensor for graph in metadata_graphs(model) for tensor in graph.tables(field)]
    return list(_options(outputs, SCORE_THRESHOLDING_OPTIONS))


def _options(tensors: Sequence[Table], kind: int) -> Iterator[Table]:
    for tensor in tensors:
        for unit in tensor.tables(TensorMetadata.PROCESS_UNITS):
            if unit.number(ProcessUnit.OPTIONS_TYPE, types.Uint8Flags) == kind:
                yield unit.table(ProcessUnit.OPTIONS)


def metadata_graphs(model: Any) -> list[Table]:
    """Return the graphs' metadata, given the file's `read_root`; FlatbufferError when they are damaged."""
    return [graph for metadata in _metadata(model) for graph in _graphs(metadata)]


def _metadata(model: Any) -> Iterator[Table]:
    """Yield the metadata's root tables, which share the file's memory."""
    buffers = tables(model, "Buffers")
    for entry in tables(model, "Metadata"):
        if decoded(entry.Name()) == METADATA_NAME:
            if entry.Buffer() >= len(buffers):
                raise FlatbufferError(f"metadata in buffer {entry.Buffer()} of {len(buffers)}")
            buffer = buffers[entry.Buffer()]
            data = b"" if buffer.DataIsNone() else buffer.DataAsNumpy()
            yield Table.root(data, model._tab.allowance)


def _graphs(metadata: Table) -> list[Table]:
    return metadata.tables(ModelMetadata.SUBGRAPH_METADATA)


def archived_text(content: bytes, ending: str, *, where: str = "") -> str | None:
    """Read the first file with this ending in the archive at a file's end, None if there is none.

    Raises:
        ModelError: when the archive is damaged, or the file in it is too large.
    """
    if not zipfile.is_zipfile(io.BytesIO(content)):
        return None
    with open_archive(content, where=where) as archive:
        names = [name for name in archive.namelist() if name.endswith(ending)]
        if not names:
            return None
        with archive.open(names[0]) as file:
            text = file.read(MAX_ARCHIVED_BYTES + 1)
        if len(text) <= MAX_ARCHIVED_BYTES:
            return text.decode()
    raise ModelError(
        f"expected at most {MAX_ARCHIVED_BYTES} bytes, found more in {names[0]}; remove the archive from the"
        " file's end",
        where=where,
    )


@contextlib.contextmanager
def open_archive(content: bytes, *, where: str = "") -> Iterator[zipfile.ZipFile]:
    """Open the archive at a file's end; ModelError when it is damaged, also for its entries in the block."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            yield archive
    except _DAMAGED_ARCHIVE as error:
        raise ModelError(
            f"expected an archive at the file's end that can be read, found a damaged one ({error}); export"
            " the file again",
            where=where,
        ) from error


DECODING_NAME = "DETECTOR_METADATA"
MEDIAPIPE_OVERLAP = 0.3
"""Measured on MediaPipe 1.2.2's ObjectDetector, which has no option for it: it gives the same detections."""
MEDIAPIPE_DETECTIONS = 100


@dataclasses.dataclass(frozen=True, kw_only=True)
class BoxDecoding:
    """How to decode the outputs of a file without post-processing.

    Attributes:
        anchors: A rows of centre y and x, height and width, as fractions of the image.
        sigmoid: whether the consumer applies the sigmoid to get scores.
        post_process: scales of the box codes, and the suppression.
        mean: of the input, per channel or one for all: a float file takes (pixel - mean) / std.
        std: likewise.
    """

    anchors: list[list[float]]
    sigmoid: bool
    post_process: PostProcessOptions
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()


_WRITER, _REMEDY = "TFLiteExporter", "export the detector again"
DECODING = JsonFile(name="decoding.json", content=BoxDecoding, writer=_WRITER, remedy=_REMEDY, indent=None)
POST_PROCESS = JsonFile(name="post_process.json", content=PostProcessOptions, writer=_WRITER, remedy=_REMEDY)
"""In the archive at the end of a file without post-processing."""


def read_decoding(content: bytes, *, where: str = "") -> BoxDecoding | None:
    """Read how to decode a file's outputs, None if unknown.

    Boxes of a file of another program are suppressed as MediaPipe does.

    Raises:
        ModelError: when the file is damaged.
        ContractError: when its record of the suppression is.
    """
    with checked_model(content, where=where) as model:
        for graph in metadata_graphs(model):
            for entry in graph.tables(SubGraphMetadata.CUSTOM_METADATA):
                if entry.text(CustomMetadata.NAME) == DECODING_NAME:
                    found = _decoding(Table.root(entry.raw(CustomMetadata.DATA), entry.allowance), where)
                    text = archived_text(content, POST_PROCESS.name, where=where)
                    own = found.post_process if text is None else POST_PROCESS.parse(text, where)
                    return dataclasses.replace(found, post_process=own)
        return None


def _decoding(detector: Table, where: str) -> BoxDecoding:
    anchors = (
        detector.table(ObjectDetectorOptions.SSD_ANCHORS_OPTIONS)
        .table(SsdAnchorsOptions.FIXED_ANCHORS_SCHEMA)
        .tables(FixedAnchorsSchema.ANCHORS)
    )
    fields = FixedAnchor
    order = (fields.Y_CENTER, fields.X_CENTER, fields.HEIGHT, fields.WIDTH)
    options = detector.table(ObjectDetectorOptions.TENSORS_DECODING_OPTIONS)
    names = TensorsDecodingOptions
    y, x, height, width = (
        options.number(slot, types.Float32Flags)
        for slot in (names.Y_SCALE, names.X_SCALE, names.H_SCALE, names.W_SCALE)
    )
    try:
        post_process = PostProcessOptions(
            max_detections=MEDIAPIPE_DETECTIONS,
            nms_score_threshold=0.0,
            nms_iou_threshold=MEDIAPIPE_OVERLAP,
            num_classes=options.number(names.NUM_CLASSES, types.Int32Flags),
            y_scale=y,
            x_scale=x,
            h_scale=height,
            w_scale=width,
        )
    except ExportError as error:
        raise ModelError(str(error), where=where) from error
    return BoxDecoding(
        anchors=[[anchor.number(slot, types.Float32Flags) for slot in order] for anchor in anchors],
        sigmoid=bool(options.number(names.SIGMOID_SCORE, types.Uint8Flags)),
        post_process=post_process,
    )
