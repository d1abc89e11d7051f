"""Named tensor types of the core.

Letters: B batch, G padded ground truth, C classes without background, D detections, K keypoints, H W pixels.
Boxes are float32 [ymin, xmin, ymax, xmax], normalised to the true image, unless a name says otherwise
(`_px`). Classes are int32 in [0, C): the label map's id minus one. Data that crosses tf.data, tf.function,
tf.distribute or a SavedModel is a NamedTuple of tensors. No field is None: an unused one has a zero
dimension. Host-side data is a frozen dataclass of numpy arrays.
"""

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import tensorflow as tf

COLOURS = 3
"""Number of an image's colour channels, RGB; further ones, such as depth or infrared, follow them."""

FIRST_CLASS = 1
"""The label map's id of class 0."""


class GroundTruth(NamedTuple):
    """Objects of an image, or of a batch if every field has a leading B.

    Attributes:
        boxes: float32 [G, 4], normalised.
        classes: int32 [G], in [0, C); 0 in padded rows.
        weights: float32 [G], weight of the object in the losses; 0 in padded rows.
        class_weights: float32 [G], further factor of the object in the class loss alone; 0 in padded rows.
        is_crowd: bool [G], a COCO crowd region, which is neither a positive nor a false positive.
        area: float32 [G], object area in pixels of the original image; 0 if unknown.
        valid: bool [G], False in padded rows.
        masks: uint8 [G, h, w]; h = w = 0 if unused.
        class_scores: float32 [G, S], soft labels. S is 0 if unused, else C, or C + 1 with the background
            first.
        confidences: float32 [G]. Above 0 the class is verified as present, below 0 as absent; 0 is not
            verified. 1 if records have no confidence.
        keypoints: float32 [G, K, 2], (y, x) in the frame of the boxes, NaN if not in the image. K is 0 if
            unused.
        keypoint_weights: float32 [G, K], weight of each keypoint in the losses; 0 if it is not visible.
        keypoint_depths: float32 [G, K], in the records' unit; 0 if unknown. K is 0 if unused.
        keypoint_depth_weights: float32 [G, K], weight of each depth in the losses; 0 if it is unknown.
    """

    boxes: tf.Tensor
    classes: tf.Tensor
    weights: tf.Tensor
    class_weights: tf.Tensor
    is_crowd: tf.Tensor
    area: tf.Tensor
    valid: tf.Tensor
    masks: tf.Tensor
    class_scores: tf.Tensor
    confidences: tf.Tensor
    keypoints: tf.Tensor
    keypoint_weights: tf.Tensor
    keypoint_depths: tf.Tensor
    keypoint_depth_weights: tf.Tensor


class Sample(NamedTuple):
    """One decoded example.

    Attributes:
        image: uint8 [H, W, 3], RGB (float32 0..255 between augmentation steps).
        truth: unbatched `GroundTruth`.
        source_id: string [].
    """

    image: tf.Tensor
    truth: GroundTruth
    source_id: tf.Tensor


class Images(NamedTuple):
    """A batch of resized images.

    Attributes:
        pixels: float32 [B, H, W, 3], RGB 0..255, resized and padded, not yet normalised for a backbone.
        true_sizes: int32 [B, 2], rows and columns of the image itself; the rest is padding.
        original_sizes: int32 [B, 2], rows and columns of the image before resizing.
        source_ids: string [B].
    """

    pixels: tf.Tensor
    true_sizes: tf.Tensor
    original_sizes: tf.Tensor
    source_ids: tf.Tensor


class Batch(NamedTuple):
    """One element of a dataset."""

    images: Images
    truth: GroundTruth


class Detections(NamedTuple):
    """Post-processed detections, sorted by descending score and zero-padded to D.

    Attributes:
        boxes: float32 [B, D, 4], normalised to the true image, clipped to it.
        scores: float32 [B, D].
        classes: int32 [B, D], in [0, C).
        count: int32 [B], number of the D rows that are detections.
        masks: float32 [B, D, h, w], in the frame of the box, 0..1; h = w = 0 if there are none.
        keypoints: float32 [B, D, K, 2], (y, x) normalised to the true image; K is 0 if there are none.
    """

    boxes: tf.Tensor
    scores: tf.Tensor
    classes: tf.Tensor
    count: tf.Tensor
    masks: tf.Tensor
    keypoints: tf.Tensor


def box_detections(boxes: tf.Tensor, scores: tf.Tensor, classes: tf.Tensor, count: tf.Tensor) -> Detections:
    """Make detections without masks and keypoints; arguments as the fields of `Detections`."""
    rows = tf.shape(scores)
    return Detections(
        boxes=boxes,
        scores=scores,
        classes=classes,
        count=count,
        masks=tf.zeros([rows[0], rows[1], 0, 0]),
        keypoints=tf.zeros([rows[0], rows[1], 0, 2]),
    )


_NOT_GIVEN: np.ndarray = np.zeros(0, np.int32)


def _not_given() -> np.ndarray:
    return _NOT_GIVEN


@dataclasses.dataclass(frozen=True, kw_only=True)
class Instances:
    """Objects of one image on the host, annotated or detected, without padding.

    A missing field of N rows is filled with its default for unknown values.

    Attributes:
        source_id: id of the image, as in its record.
        height: rows of the original image, pixels; 0 if unknown.
        width: columns of the original image, pixels; 0 if unknown.
        boxes: float32 [N, 4], normalised.
        classes: int32 [N], in [0, C).
        scores: float32 [N], descending; 1 for annotated objects.
        is_crowd: bool [N], a COCO crowd region.
        area: float32 [N], pixels of the original image; 0 if unknown (then the box's area counts).
        difficult: bool [N], Pascal VOC's flag.
        group_of: bool [N], Open Images' flag: one box around several objects.
        labelled: int32 [L], classes in [0, C) of image-level labels: verified as present or absent.
        not_exhaustive: int32 [E], classes in [0, C) of which the image may have more objects (LVIS).
        masks: object [N] of bytes, COCO's compressed RLE of the whole image; empty if unknown.
        keypoints: float32 [N, K, 2], (y, x) normalised, NaN if not labelled; K is 0 if there are none.
        xywh: float64 [N, 4], x, y, width and height in pixels, as a COCO file has them; NaN if not from one.
    """

    source_id: str
    height: int = 0
    width: int = 0
    boxes: np.ndarray
    classes: np.ndarray
    scores: np.ndarray = dataclasses.field(default_factory=_not_given)
    is_crowd: np.ndarray = dataclasses.field(default_factory=_not_given)
    area: np.ndarray = dataclasses.field(default_factory=_not_given)
    difficult: np.ndarray = dataclasses.field(default_factory=_not_given)
    group_of: np.ndarray = dataclasses.field(default_factory=_not_given)
    labelled: np.ndarray = dataclasses.field(default_factory=_not_given)
    not_exhaustive: np.ndarray = dataclasses.field(default_factory=_not_given)
    masks: np.ndarray = dataclasses.field(default_factory=_not_given)
    keypoints: np.ndarray = dataclasses.field(default_factory=_not_given)
    xywh: np.ndarray = dataclasses.field(default_factory=_not_given)

    def __post_init__(self) -> None:
        for name, row in _UNKNOWN_ROWS.items():
            if getattr(self, name) is _NOT_GIVEN:
                object.__setattr__(self, name, np.repeat(row, len(self.classes), axis=0))

    @property
    def has_masks(self) -> bool:
        """Whether there are objects, all with masks."""
        return bool(len(self.masks)) and all(self.masks)

    def take(self, rows: np.ndarray) -> "Instances":
        """Return the objects of the given rows: int [M], or bool [N]."""
        fields = ("boxes", "classes", *_UNKNOWN_ROWS)
        return dataclasses.replace(self, **{name: getattr(self, name)[rows] for name in fields})


_UNKNOWN_ROWS: Mapping[str, np.ndarray] = {
    "scores": np.ones(1, np.float32),
    "is_crowd": np.zeros(1, bool),
    "area": np.zeros(1, np.float32),
    "difficult": np.zeros(1, bool),
    "group_of": np.zeros(1, bool),
    "masks": np.array([b""], object),
    "keypoints": np.zeros((1, 0, 2), np.float32),
    "xywh": np.full((1, 4), np.nan),
}
"""Field of N rows to its default row."""
