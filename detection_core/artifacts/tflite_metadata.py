"""Read a TensorFlow Lite file's metadata: normalisation of the input, labels, and box decoding.

LiteRT's task libraries read them from a `TFLITE_METADATA` buffer and from a label file in a zip archive after
the model. The buffer is a flatbuffer of TensorFlow Lite Support's schema M001. Files without post-processing
also have MediaPipe's `DETECTOR_METADATA`, which defines how box codes become boxes
(object_detector_metadata_schema.fbs, V001).

No locked dependency has generated classes for these schemas; tflite_metadata.yaml names their fields.
"""

import contextlib
import dataclasses
import io
import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flatbuffers import number_types as types

from detection_core.artifacts.flatbuffer_table import FlatbufferError, Table, decoded, tables
from detection_core.artifacts.json_file import JsonFile
from detection_core.artifacts.tflite_file import checked_model
from detection_core.bounded.plain_yaml import module_table
from detection_core.errors import ExportError, ModelError
from detection_core.ops.post_process_options import PostProcessOptions

METADATA_IDENTIFIER = b"M001"
DETECTOR_IDENTIFIER = b"V001"

SCHEMA: Mapping[str, Mapping[str, tuple[int, str]]] = module_table(__file__)
"""Table to field to slot and type, from tflite_metadata.yaml."""
NUMBERS: Mapping[str, Any] = {
    "uint8": types.Uint8Flags,
    "int8": types.Int8Flags,
    "int32": types.Int32Flags,
    "float32": types.Float32Flags,
}
LIST = "[]"
_THRESHOLD = "global_score_threshold"
FEATURE, IMAGE, BOUNDING_BOX = 1, 2, 3
"""Members of the union of a `Content`."""
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
_DAMAGED_ARCHIVE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    OSError,
    RuntimeError,  # encrypted archives; NotImplementedError for unknown compression is a subclass
    UnicodeDecodeError,
)


class Record:
    """A table of the metadata, whose fields are attributes; a missing number is 0, a missing text empty."""

    def __init__(self, kind: str, table: Table) -> None:
        self._fields, self.table = SCHEMA[kind], table

    def place(self, field: str) -> int:
        """Return a field's position in the data, 0 if the table lacks it."""
        return self.table.place(self._fields[field][0])

    def __getattr__(self, field: str) -> Any:
        slot, kind = self._fields[field]
        if kind.endswith(LIST):
            return [Record(kind.removesuffix(LIST), each) for each in self.table.tables(slot)]
        if kind in SCHEMA:
            return Record(kind, self.table.table(slot))
        if kind in NUMBERS:
            return self.table.number(slot, NUMBERS[kind])
        return {"text": self.table.text, "uint8s": self.table.raw, "float32s": self.table.floats}[kind](slot)


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
        mean, std = options.mean, options.std
        labels = tuple((archived_text(content, ".txt", where=where) or "").splitlines())
        threshold = max((o.global_score_threshold for o in _thresholdings(model)), default=0.0)
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
        struct.pack_into("<f", options.table.Bytes, options.place(_THRESHOLD), threshold)
    return bytes(changed)


def read_tensor_names(content: bytes, *, where: str = "") -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Read the metadata's names of inputs and outputs, in order, if any; ModelError for a damaged file."""
    with checked_model(content, where=where) as model:
        first = metadata_graphs(model)[:1]
        inputs, outputs = (
            tuple(tensor.name for graph in first for tensor in getattr(graph, field))
            for field in ("input_tensor_metadata", "output_tensor_metadata")
        )
        return inputs, outputs


def _normalisation(model: Any) -> tuple[Record | None, str]:
    """Return the options of the input's normalisation, and the model's name."""
    for metadata in _metadata(model):
        inputs = [
            each for graph in metadata.subgraph_metadata[:1] for each in graph.input_tensor_metadata[:1]
        ]
        for unit in _process_units(inputs, NORMALIZATION_OPTIONS):
            return unit.normalization_options, metadata.name
    return None, ""


def _thresholdings(model: Any) -> list[Record]:
    outputs = [tensor for graph in metadata_graphs(model) for tensor in graph.output_tensor_metadata]
    units = _process_units(outputs, SCORE_THRESHOLDING_OPTIONS)
    return [unit.score_thresholding_options for unit in units]


def _process_units(tensors: Sequence[Record], kind: int) -> Iterator[Record]:
    return (unit for tensor in tensors for unit in tensor.process_units if unit.options_type == kind)


def metadata_graphs(model: Any) -> list[Record]:
    """Return the graphs' metadata, given the file's `read_root`; FlatbufferError when they are damaged."""
    return [graph for metadata in _metadata(model) for graph in metadata.subgraph_metadata]


def _metadata(model: Any) -> Iterator[Record]:
    """Yield the metadata's root tables, which share the file's memory."""
    buffers = tables(model, "Buffers")
    for entry in tables(model, "Metadata"):
        if decoded(entry.Name()) == METADATA_NAME:
            if entry.Buffer() >= len(buffers):
                raise FlatbufferError(f"metadata in buffer {entry.Buffer()} of {len(buffers)}")
            buffer = buffers[entry.Buffer()]
            data = b"" if buffer.DataIsNone() else buffer.DataAsNumpy()
            yield Record("ModelMetadata", Table.root(data, model._tab.allowance))


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
            for entry in graph.custom_metadata:
                if entry.name == DECODING_NAME:
                    root = Table.root(entry.data, entry.table.allowance)
                    found = _decoding(Record("ObjectDetectorOptions", root), where)
                    text = archived_text(content, POST_PROCESS.name, where=where)
                    own = found.post_process if text is None else POST_PROCESS.parse(text, where)
                    return dataclasses.replace(found, post_process=own)
        return None


def _decoding(detector: Record, where: str) -> BoxDecoding:
    anchors = detector.ssd_anchors_options.fixed_anchors_schema.anchors
    options = detector.tensors_decoding_options
    try:
        post_process = PostProcessOptions(
            max_detections=MEDIAPIPE_DETECTIONS,
            nms_score_threshold=0.0,
            nms_iou_threshold=MEDIAPIPE_OVERLAP,
            num_classes=options.num_classes,
            y_scale=options.y_scale,
            x_scale=options.x_scale,
            h_scale=options.h_scale,
            w_scale=options.w_scale,
        )
    except ExportError as error:
        raise ModelError(str(error), where=where) from error
    return BoxDecoding(
        anchors=[[anchor.y_center, anchor.x_center, anchor.height, anchor.width] for anchor in anchors],
        sigmoid=bool(options.sigmoid_score),
        post_process=post_process,
    )
