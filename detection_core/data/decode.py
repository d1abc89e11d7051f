"""Decode tf.Example records with the Object Detection API's feature keys."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import tensorflow as tf

from detection_core.data.label_map import LabelMap
from detection_core.data.records import CLASS_COLUMNS, OPTIONAL_COLUMNS, SIDES
from detection_core.ops.objects import keep_objects, new_truth
from detection_core.structures import COLOURS, FIRST_CLASS, Sample

MaskType = Literal["", "NUMERICAL_MASKS", "PNG_MASKS"]
ADDITIONAL_CHANNELS = "image/additional_channels/encoded"
TargetSize = Callable[[tf.Tensor], tf.Tensor]

# Scales at which libjpeg can decode, as divisors of the image's size; it rounds up.
_RATIOS = (1, 2, 4, 8)


@dataclasses.dataclass(frozen=True, kw_only=True)
class DecodeOptions:
    """Optional parts of a record to read.

    Attributes:
        masks: storage format of instance masks; empty: they are not read.
        channels: colour channels to decode to.
        additional_channels: number of the record's further channels, each an image file, that follow them.
        keypoints: K, keypoints of an object; 0: they are not read.
        keypoint_depths: whether the depths of these are read.
        score_columns: scores recorded for each object; 0: they are not read.
        background_column: whether the first score is the background's.
        target_size: maps int32 [2], an image's rows and columns, to its size after resizing. JPEG files are
            then decoded at a reduced size. None: decode at full size.
    """

    masks: MaskType = ""
    channels: int = COLOURS
    additional_channels: int = 0
    keypoints: int = 0
    keypoint_depths: bool = False
    score_columns: int = 0
    background_column: bool = False
    target_size: TargetSize | None = None


class DecodedExample(NamedTuple):
    """One record.

    Attributes:
        sample: image and objects.
        difficult: bool [G], Pascal VOC's flag.
        group_of: bool [G], Open Images' flag.
        labelled: int32 [L], image-level classes in [0, C), and those that LVIS verified as absent.
        not_exhaustive: int32 [E], classes in [0, C) that are not annotated exhaustively (LVIS).
    """

    sample: Sample
    difficult: tf.Tensor
    group_of: tf.Tensor
    labelled: tf.Tensor
    not_exhaustive: tf.Tensor


def class_text_table(label_map: LabelMap) -> tf.lookup.StaticHashTable:
    """Make the table from class text, see `LabelMap.ids_by_text`, to class id; unknown text gives -1."""
    ids = label_map.ids_by_text
    initializer = tf.lookup.KeyValueTensorInitializer(
        tf.constant(list(ids), tf.string, [len(ids)]), tf.constant(list(ids.values()), tf.int64, [len(ids)])
    )
    return tf.lookup.StaticHashTable(initializer, default_value=-1)


def _list_of(dtype: tf.DType) -> tf.io.FixedLenSequenceFeature:
    return tf.io.FixedLenSequenceFeature([], dtype, allow_missing=True)


_ABSENT, _NOT_EXHAUSTIVE = "neg_category_ids", "not_exhaustive_category_ids"
_LISTS = {
    tf.int64: (
        *("object/class/label", "object/is_crowd", "object/difficult", "object/group_of", "class/label"),
        *(_ABSENT, _NOT_EXHAUSTIVE),
    ),
    tf.string: ("object/class/text", "class/text"),
    tf.float32: ("object/weight", "object/area", "object/class/confidence"),
}


def _features(options: DecodeOptions) -> dict[str, Any]:
    features: dict[str, Any] = {
        "image/encoded": tf.io.FixedLenFeature([], tf.string, ""),
        "image/source_id": tf.io.FixedLenFeature([], tf.string, ""),
        **{key: _list_of(tf.float32) for key in SIDES},
        **{f"image/{key}": _list_of(dtype) for dtype, keys in _LISTS.items() for key in keys},
    }
    if options.additional_channels:
        features[ADDITIONAL_CHANNELS] = _list_of(tf.string)
    if options.masks:
        features["image/object/mask"] = _list_of(tf.string if options.masks == "PNG_MASKS" else tf.float32)
    if options.keypoints:
        features["image/object/keypoint/y"] = _list_of(tf.float32)
        features["image/object/keypoint/x"] = _list_of(tf.float32)
        features["image/object/keypoint/visibility"] = _list_of(tf.int64)
        if options.keypoint_depths:
            features |= {key: _list_of(tf.float32) for key in _DEPTHS}
    if options.score_columns:
        features["image/object/class/multiclass_scores"] = _list_of(tf.float32)
    return features


_DEPTHS = ("image/object/keypoint/z", "image/object/keypoint/z/weights")


def _first_unless_empty(values: tf.Tensor, others: tf.Tensor) -> tf.Tensor:
    """Return one of two vectors without a `tf.cond`, whose branches would be traced as functions."""
    return tf.concat([values, others[: tf.where(tf.size(values) > 0, 0, tf.size(others))]], axis=0)


def _filled(values: tf.Tensor, count: tf.Tensor, default: float) -> tf.Tensor:
    return _first_unless_empty(values, tf.fill([count], values.dtype.as_numpy_dtype(default)))


def _class_ids(
    fields: dict[str, tf.Tensor], table: tf.lookup.StaticHashTable | None, prefix: str = "image/object/class"
) -> tf.Tensor:
    """Return int64 [G]; with a label map, text takes precedence, because the ids may be stale."""
    labels, texts = fields[f"{prefix}/label"], fields[f"{prefix}/text"]
    if table is None:
        return labels
    return _first_unless_empty(table.lookup(texts), labels)


def decode_classes(record: tf.Tensor, *, table: tf.lookup.StaticHashTable | None) -> tf.Tensor:
    """Return the classes of a record's (string []) objects, int64 [G]; unknown ones are below 0."""
    wanted = {key: _features(DecodeOptions())[key] for key in CLASS_COLUMNS}
    return _class_ids(tf.io.parse_single_example(record, wanted), table) - FIRST_CLASS


def parse_record(record: tf.Tensor, options: DecodeOptions | None = None) -> dict[str, tf.Tensor]:
    """Return the fields of a serialised tf.Example, string [], by feature key, without decoding its image."""
    return tf.io.parse_single_example(record, _features(options or DecodeOptions()))


def decode_pixels(encoded: tf.Tensor, *, channels: int, target_size: TargetSize | None = None) -> tf.Tensor:
    """Return the pixels of an image file, uint8 [H, W, channels]; of an animation, the first frame.

    With a `target_size`, see `DecodeOptions`, H and W of a JPEG file are divided by 1, 2, 4 or 8. The largest
    divisor that keeps the image at least as large as its target is used.
    """

    def whole() -> tf.Tensor:
        return tf.io.decode_image(encoded, channels=channels, expand_animations=False)

    if target_size is None:
        image = whole()
    else:
        reduced = functools.partial(_decode_reduced, encoded, channels, target_size)
        image = tf.cond(tf.io.is_jpeg(encoded), reduced, whole)
    image.set_shape([None, None, channels])
    return image


def _image(fields: dict[str, tf.Tensor], options: DecodeOptions) -> tf.Tensor:
    """Return a record's pixels, uint8 [H, W, C].

    A record whose additional channels have another number or size than the image fails when it is decoded.
    """
    image = decode_pixels(fields["image/encoded"], channels=options.channels, target_size=options.target_size)
    if not options.additional_channels:
        return image
    stored, count = fields[ADDITIONAL_CHANNELS], options.additional_channels
    message = f"expected {count} files in {ADDITIONAL_CHANNELS}"
    with tf.control_dependencies([tf.debugging.assert_equal(tf.size(stored), count, message)]):
        planes = [decode_pixels(stored[number], channels=1) for number in range(count)]
    return tf.concat([image, *planes], axis=-1)


def decode_record_pixels(serialized: tf.Tensor, additional_channels: int) -> tf.Tensor:
    """Return the pixels of a serialised tf.Example with additional channels, uint8 [H, W, C]."""
    options = DecodeOptions(additional_channels=additional_channels)
    return _image(parse_record(serialized, options), options)


def _decode_reduced(encoded: tf.Tensor, channels: int, target_size: TargetSize) -> tf.Tensor:
    size = tf.image.extract_jpeg_shape(encoded)[:2]
    ratios = tf.constant(_RATIOS[1:])[:, tf.newaxis]
    fits = tf.reduce_all((size + ratios - 1) // ratios >= target_size(size), axis=1)
    branches = [
        functools.partial(tf.io.decode_jpeg, encoded, channels=channels, ratio=ratio) for ratio in _RATIOS
    ]
    return tf.switch_case(tf.math.count_nonzero(fits, dtype=tf.int32), branches)


def _columns_agree(fields: dict[str, tf.Tensor], count: tf.Tensor) -> tf.Operation:
    """Check that a record's columns have one entry per box; `column_fault` names the wrong ones."""
    text, label = (tf.size(fields[key]) for key in CLASS_COLUMNS)
    optional = tf.stack([tf.size(fields[key]) for key in OPTIONAL_COLUMNS])
    agree = tf.reduce_all(tf.logical_or(tf.equal(optional, 0), tf.equal(optional, count)))
    named = tf.logical_or(tf.equal(text, count), tf.logical_and(tf.equal(text, 0), tf.equal(label, count)))
    return tf.debugging.Assert(
        tf.logical_and(agree, named), ["columns of unequal length", count, text, label]
    )


def _decode_png_mask(encoded: tf.Tensor) -> tf.Tensor:
    mask = tf.io.decode_png(encoded, channels=1)
    return tf.cast(mask[:, :, 0] > 0, tf.uint8)


def _masks(
    fields: dict[str, tf.Tensor], options: DecodeOptions, image: tf.Tensor, count: tf.Tensor
) -> tf.Tensor:
    """Return uint8 [G, h, w], zero if the record has no masks; statically [G, 0, 0] if masks are not read."""
    if not options.masks:
        return tf.ensure_shape(tf.zeros([count, 0, 0], tf.uint8), [None, 0, 0])
    shape, stored = tf.concat([[count], tf.shape(image)[:2]], 0), fields["image/object/mask"]

    def read() -> tf.Tensor:
        if options.masks == "NUMERICAL_MASKS":
            return tf.cast(tf.reshape(stored, shape) > 0, tf.uint8)
        decoded = tf.TensorSpec([None, None], tf.uint8)
        return tf.map_fn(_decode_png_mask, stored, fn_output_signature=decoded)

    none = tf.zeros(shape, tf.uint8)
    return tf.cond(tf.size(stored) > 0, read, lambda: none)


def _keypoint_column(
    values: tf.Tensor, options: DecodeOptions, count: tf.Tensor, default: float
) -> tf.Tensor:
    """Return [G, K], filled with the default if the record lacks the column."""
    filled = _filled(values, count * options.keypoints, default)
    return tf.ensure_shape(tf.reshape(filled, [count, options.keypoints]), [None, options.keypoints])


def _keypoints(
    fields: dict[str, tf.Tensor], options: DecodeOptions, count: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return float32 [G, K, 2] and weights [G, K]; unlabelled keypoints are NaN with weight 0."""
    y, x, stored = (
        _keypoint_column(fields[f"image/object/keypoint/{key}"], options, count, default)
        for key, default in (("y", math.nan), ("x", math.nan), ("visibility", 1))
    )
    seen = (stored > 0) & tf.math.is_finite(y) & tf.math.is_finite(x)
    keypoints = tf.where(seen[..., tf.newaxis], tf.stack([y, x], axis=-1), math.nan)
    return keypoints, tf.cast(seen, tf.float32)


def _keypoint_depths(
    fields: dict[str, tf.Tensor], options: DecodeOptions, count: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return float32 [G, K] and weights [G, K]; depths that a record lacks are 0 with weight 0."""
    depths, weights = (_keypoint_column(fields[key], options, count, 0.0) for key in _DEPTHS)
    known = tf.math.is_finite(depths) & tf.math.is_finite(weights)
    return tf.where(known, depths, 0.0), tf.where(known, weights, 0.0)


def _class_scores(fields: dict[str, tf.Tensor], options: DecodeOptions, classes: tf.Tensor) -> tf.Tensor:
    """Return float32 [G, S]; without recorded scores, the one-hot classes."""
    stored, columns = fields["image/object/class/multiclass_scores"], options.score_columns
    scores = tf.cond(
        tf.size(stored) > 0,
        lambda: tf.reshape(stored, [tf.shape(classes)[0], columns]),
        lambda: tf.one_hot(classes + int(options.background_column), columns),
    )
    return tf.ensure_shape(scores, [None, columns])


def decode_example(
    serialized: tf.Tensor,
    *,
    table: tf.lookup.StaticHashTable | None = None,
    options: DecodeOptions | None = None,
) -> DecodedExample:
    """Decode a serialised tf.Example to a sample.

    Args:
        serialized: string [].
        table: from `class_text_table`; None: only class ids in the record count.
        options: what to read.

    Returns:
        The unfiltered record: a class may be negative (unknown text) and a box may be NaN. See
            `drop_unusable_objects`. Defaults: weight and confidence 1, area 0, flags False.
    """
    options = options or DecodeOptions()
    fields = parse_record(serialized, options)
    image = _image(fields, options)
    boxes = tf.stack([fields[key] for key in SIDES], axis=-1)
    count = tf.shape(boxes)[0]
    with tf.control_dependencies([_columns_agree(fields, count)]):
        classes = tf.cast(_class_ids(fields, table) - 1, tf.int32)
    optional: dict[str, tf.Tensor] = {}
    if options.keypoints:
        optional["keypoints"], optional["keypoint_weights"] = _keypoints(fields, options, count)
        if options.keypoint_depths:
            found = _keypoint_depths(fields, options, count)
            optional["keypoint_depths"], optional["keypoint_depth_weights"] = found
    if options.score_columns:
        optional["class_scores"] = _class_scores(fields, options, classes)
    truth = new_truth(
        boxes,
        classes,
        weights=_filled(fields["image/object/weight"], count, 1.0),
        is_crowd=tf.cast(_filled(fields["image/object/is_crowd"], count, 0), tf.bool),
        area=_filled(fields["image/object/area"], count, 0.0),
        masks=_masks(fields, options, image, count),
        confidences=_filled(fields["image/object/class/confidence"], count, 1.0),
        **optional,
    )
    labelled = tf.concat([_class_ids(fields, table, "image/class"), fields[f"image/{_ABSENT}"]], axis=0)
    labelled = tf.cast(labelled - FIRST_CLASS, tf.int32)
    return DecodedExample(
        sample=Sample(image, truth, fields["image/source_id"]),
        difficult=tf.cast(_filled(fields["image/object/difficult"], count, 0), tf.bool),
        group_of=tf.cast(_filled(fields["image/object/group_of"], count, 0), tf.bool),
        labelled=tf.gather(labelled, tf.where(labelled >= 0)[:, 0]),
        not_exhaustive=tf.cast(fields[f"image/{_NOT_EXHAUSTIVE}"] - FIRST_CLASS, tf.int32),
    )


def drop_unusable_objects(decoded: DecodedExample) -> DecodedExample:
    """Remove objects with NaN in the box or with a class that is not in the label map."""
    truth = decoded.sample.truth
    known = truth.classes >= 0
    rows = tf.where(known & tf.logical_not(tf.reduce_any(tf.math.is_nan(truth.boxes), axis=-1)))[:, 0]
    return decoded._replace(
        sample=decoded.sample._replace(truth=keep_objects(truth, rows)),
        difficult=tf.gather(decoded.difficult, rows),
        group_of=tf.gather(decoded.group_of, rows),
    )
