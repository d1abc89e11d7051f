"""Encodes an annotated image as an example, or rejects it with a reason."""

import dataclasses
import errno
import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from detection_core.data import encode
from detection_core.data.image_header import MAX_FILE_BYTES, ImageFault, read_header
from detection_core.data.orientation import (
    CONVERTIBLE,
    UPRIGHT,
    convert_to_png,
    read_orientation,
    store_upright,
    turn_png,
    upright_size,
)
from detection_core.data.pixels import check_with_both, check_with_pillow
from detection_core.datasets import shapes
from detection_core.datasets.annotated_images import (
    LVIS_FIELDS,
    OPTIONAL_FIELDS,
    AnnotatedImage,
    AnnotatedObject,
    Box,
    Rejected,
)
from detection_core.datasets.classes import KeypointLayout, keypoint_columns
from detection_core.datasets.masks import encode_masks, has_area
from detection_core.errors import ConfigError, is_exhausted
from detection_core.storage import files
from detection_core.storage.file_parts import file_part

SAMPLE_FRACTION, SAMPLE_LEAST = 0.001, 16
"""Default fraction of a split to decode, and minimum number of images."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Decoding:
    """How much of a data set is decoded.

    Attributes:
        fraction: of a split's images.
        least: minimum number of decoded images per split.
        check: decodes the bytes of an image file.
        decoders: their names, for the dataset card.
    """

    fraction: float
    least: int
    check: Callable[[bytes], None]
    decoders: tuple[str, ...]

    def images_of(self, examples: int) -> int:
        """Return the number of images of a split to decode."""
        return min(examples, max(self.least, math.ceil(self.fraction * examples)))

    def images_in(self, begin: int, end: int, examples: int) -> int:
        """Return the number of images to decode from `begin` to `end`; the shards add up to the split."""
        decoded = self.images_of(examples)
        return end * decoded // examples - begin * decoded // examples if examples else 0


DECODINGS = {
    "all": Decoding(fraction=1.0, least=0, check=check_with_both, decoders=("Pillow", "TensorFlow")),
    "none": Decoding(fraction=0.0, least=0, check=check_with_pillow, decoders=()),
    "sample": Decoding(
        fraction=SAMPLE_FRACTION, least=SAMPLE_LEAST, check=check_with_pillow, decoders=("Pillow",)
    ),
}
"""Value of `decode_images` to decoding."""


def find_decoding(name: str) -> Decoding:
    """Return the decoding that `decode_images` names; ConfigError if the value is unknown."""
    if name not in DECODINGS:
        raise ConfigError(f"expected one of {list(DECODINGS)}, found {name!r}", where="decode_images")
    return DECODINGS[name]


ROUNDING = 1.0
"""Pixels by which a box may exceed the image; it is then clipped and counted."""

_FLOAT32_MAX = 3.4e38


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class CheckedExample:
    """An example ready to be written, and its facts for the dataset card.

    Attributes:
        data: the serialised `tf.train.Example`.
        image: the annotated image.
        objects: as annotated.
        boxes: (xmin, ymin, xmax, ymax) of the objects in pixels, clipped to the image.
        clipped: number of clipped boxes.
        converted: whether the image file was converted to PNG.
        decoded: whether the pixels were decoded.
        turned: whether the pixels were turned by their EXIF orientation.
        annotated_as_stored: whether the objects were turned with them.
        passed_through: whether the record is byte for byte the source's.
        masks: features of the objects' masks by key, PNG files of the image's size; empty if none has any.
    """

    data: bytes
    image: encode.EncodedImage
    objects: list[AnnotatedObject]
    boxes: list[Box]
    clipped: int
    converted: bool
    decoded: bool = False
    turned: bool = False
    annotated_as_stored: bool = False
    passed_through: bool = False
    masks: Mapping[str, Sequence[Any]] = dataclasses.field(default_factory=dict)


def make_example(
    record: AnnotatedImage,
    label_ids: Mapping[str, int],
    check_pixels: Callable[[bytes], None] | None = None,
    keypoints: KeypointLayout | None = None,
    exif_annotations: str = shapes.SHOWN,
) -> CheckedExample:
    """Read, check and encode one image. Upright JPEG and PNG files are stored unchanged.

    A record that already holds the image is kept, except for the features that have to change.

    Args:
        record: as a reader made it.
        label_ids: class name to id of the label map.
        check_pixels: decodes the stored file and raises ImageFault; None checks its structure only.
        keypoints: of the data set; None if it has none.
        exif_annotations: `upright` or `stored`; see `shapes.find_annotation_frame`.

    Raises:
        Rejected: if the file, a box, a mask, a keypoint or a class cannot be used.
    """
    original = _read_file(record.example) if record.example else b""
    image, frame, converted = _load_image(record, original, check_pixels)
    turned = frame.orientation != UPRIGHT
    as_stored = shapes.find_annotation_frame(record, frame, exif_annotations) == shapes.STORED and turned
    drawn_on = frame if as_stored else shapes.Frame(image.width, image.height)
    objects = shapes.place_objects(record, drawn_on.width, drawn_on.height)
    objects = [shapes.turn_object(item, drawn_on) for item in objects] if as_stored else objects
    boxes, clipped = [], 0
    for item in objects:
        if item.name not in label_ids:
            raise Rejected("unknown_category", f"{item.label}: {item.name!r} is not in the label map")
        box = check_box(item, image.width, image.height)
        clipped += box != item.box
        boxes.append(box)
    example = CheckedExample(
        data=b"",
        image=image,
        objects=objects,
        boxes=boxes,
        masks=_mask_columns(objects, drawn_on),
        clipped=clipped,
        converted=converted,
        decoded=check_pixels is not None,
        turned=turned,
        annotated_as_stored=as_stored,
    )
    made = encoded_example(example, record, label_ids, keypoints)
    data = _merged(original, made, image, turned=turned) if original else encode.serialise(made)
    return dataclasses.replace(example, data=data, passed_through=bool(original) and data == original)


def encoded_example(
    example: CheckedExample,
    record: AnnotatedImage,
    label_ids: Mapping[str, int],
    keypoints: KeypointLayout | None = None,
) -> encode.ExampleMessage:
    """Return the message of an example; `record` has the image-level labels."""
    image, objects = example.image, example.objects
    columns = {
        **_object_columns(objects, example.boxes, label_ids, image),
        **_optional_columns(objects),
        **example.masks,
        **keypoint_columns(objects, keypoints or KeypointLayout(), image.height, image.width),
        **_image_columns(record, label_ids),
    }
    return encode.encode_example(image, columns)


def _merged(
    original: bytes, made: encode.ExampleMessage, image: encode.EncodedImage, *, turned: bool
) -> bytes:
    try:
        return encode.merge_example(original, made, (image.width, image.height), turned=turned)
    except ValueError as e:
        raise Rejected("malformed_record", f"expected a record that can be kept, found {e}") from e


def check_box(item: AnnotatedObject, width: int, height: int) -> Box:
    """Return a box in pixels, clipped for a rounding error; Rejected if it exceeds the image by more."""
    xmin, ymin, xmax, ymax = item.box
    if 0 <= xmin < xmax <= width and 0 <= ymin < ymax <= height and abs(item.area) < _FLOAT32_MAX:
        return item.box  # almost all boxes
    # Comparisons with NaN are false; infinity fails every limit.
    if not abs(xmin) + abs(ymin) + abs(xmax) + abs(ymax) + abs(item.area) < _FLOAT32_MAX:
        raise Rejected("box_not_finite", _describe(item))
    if xmax < xmin or ymax < ymin:
        raise Rejected("box_inverted", _describe(item))
    if xmax == xmin or ymax == ymin:
        raise Rejected("box_degenerate", _describe(item))
    outside = min(xmin, ymin) < -ROUNDING or xmax > width + ROUNDING or ymax > height + ROUNDING
    box = (max(xmin, 0.0), max(ymin, 0.0), min(xmax, float(width)), min(ymax, float(height)))
    if outside or box[2] <= box[0] or box[3] <= box[1]:
        raise Rejected("box_outside", f"{_describe(item)} in an image of {width}x{height}")
    return box


def _describe(item: AnnotatedObject) -> str:
    xmin, ymin, xmax, ymax = item.box
    return (
        f"{item.label}: {item.name!r} from ({xmin:g}, {ymin:g}) to ({xmax:g}, {ymax:g}), area {item.area:g}"
    )


def _load_image(
    record: AnnotatedImage, original: bytes, check_pixels: Callable[[bytes], None] | None
) -> tuple[encode.EncodedImage, shapes.Frame, bool]:
    """Return the upright image, the frame of its file, and whether the file had another format."""
    data = _part_of(record, original) if original else _read_file(record.path)
    try:
        header = read_header(data)
        orientation = read_orientation(data, header.format) if header.has_notes else UPRIGHT
        frame = shapes.Frame(header.width, header.height, orientation)
        converted = header.format in CONVERTIBLE
        if converted:
            data, header = convert_to_png(data, header.format)
            frame = shapes.Frame(*upright_size(header.width, header.height, orientation), orientation)
        elif orientation != UPRIGHT:
            data, header = store_upright(data, header.format)
        if check_pixels:
            check_pixels(data)
    except ImageFault as e:
        raise Rejected(e.reason, e.message) from e
    image = encode.EncodedImage(
        data=data,
        sha256=hashlib.sha256(data).hexdigest(),
        format=header.format,
        height=header.height,
        width=header.width,
        filename=record.filename,
        source_id=record.source_id,
    )
    return image, frame, converted


def _part_of(record: AnnotatedImage, original: bytes) -> bytes:
    """Return the image file inside a record."""
    image, whole = file_part(record.path), file_part(record.example)
    if image is None or whole is None:
        return _read_file(record.path)
    begin = image.offset - whole.offset
    return original[begin : begin + image.length]


def _read_file(path: str) -> bytes:
    try:
        return files.read_regular(path, MAX_FILE_BYTES)
    except (FileNotFoundError, NotADirectoryError) as e:
        raise Rejected("missing_image", "the file does not exist") from e
    except OSError as e:
        if is_exhausted(e):
            raise
        reason = "decompression_bomb" if e.errno == errno.EFBIG else "unreadable_image"
        raise Rejected(reason, e.strerror or type(e).__name__) from e


def _object_columns(
    objects: list[AnnotatedObject], boxes: list[Box], label_ids: Mapping[str, int], image: encode.EncodedImage
) -> dict[str, list[Any]]:
    return {
        "image/object/bbox/xmin": [b[0] / image.width for b in boxes],
        "image/object/bbox/ymin": [b[1] / image.height for b in boxes],
        "image/object/bbox/xmax": [b[2] / image.width for b in boxes],
        "image/object/bbox/ymax": [b[3] / image.height for b in boxes],
        "image/object/class/label": [label_ids[o.name] for o in objects],
        "image/object/class/text": [o.name for o in objects],
        "image/object/is_crowd": [o.crowd for o in objects],
        "image/object/area": [
            o.area or (b[2] - b[0]) * (b[3] - b[1]) for o, b in zip(objects, boxes, strict=True)
        ],
    }


def _optional_columns(objects: Sequence[AnnotatedObject]) -> dict[str, list[Any]]:
    """Return the columns for which at least one object has a value."""
    found = {}
    columns = dict(zip(AnnotatedObject._fields, zip(*objects, strict=True), strict=False))
    for field, (key, default) in OPTIONAL_FIELDS.items():
        values = columns.get(field, ())
        if values.count(None) < len(values):
            found[key] = [default if value is None else value for value in values]
    return found


def _mask_columns(objects: list[AnnotatedObject], drawn_on: shapes.Frame) -> dict[str, Any]:
    """Return the masks, or none if no object has a mask; empty masks fill gaps with weight 0.

    Masks are filled in the frame they were drawn in, then turned as pixels.
    """
    masked = [has_area(item.mask) for item in objects]
    if not any(masked):
        return {}
    masks = encode_masks(objects, drawn_on.height, drawn_on.width)
    if drawn_on.orientation != UPRIGHT:
        masks = [turn_png(mask, drawn_on.orientation) for mask in masks]
    weights = {} if all(masked) else {"image/object/mask/weight": [float(has) for has in masked]}
    return {"image/object/mask": masks, **weights}


def _image_columns(record: AnnotatedImage, label_ids: Mapping[str, int]) -> dict[str, list[Any]]:
    """Return the image-level labels and LVIS's lists.

    Only classes in the label map count: Open Images has thousands of labels without boxes.
    """
    columns: dict[str, list[Any]] = {}
    if record.labels:
        known = [label for label in record.labels if label.name in label_ids]
        columns["image/class/label"] = [label_ids[label.name] for label in known]
        columns["image/class/text"] = [label.name for label in known]
        columns["image/class/confidence"] = [label.confidence for label in known]
    for key, field in LVIS_FIELDS.items():
        if names := getattr(record, field):
            columns[f"image/{key}"] = sorted(label_ids[name] for name in names if name in label_ids)
    return columns
