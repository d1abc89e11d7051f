"""Images placed in frames of other sizes, with their objects."""

from __future__ import annotations

import tensorflow as tf

from detection_core.augment.crops import Window, crop_image, crop_masks, crop_truth
from detection_core.ops.resampling import resize_masks, resize_pixels
from detection_core.structures import GroundTruth, Sample


def place(
    sample: Sample,
    *,
    scaled: tf.Tensor,
    offset: tf.Tensor,
    frame: tf.Tensor,
    min_visible: float = 0.0,
    pad_value: tuple[float, ...] = (),
) -> Sample:
    """Scale an image and lay it into a frame; what is outside is cut off.

    Args:
        sample: boxes normalised to the image.
        scaled: int32 [2], rows and columns of the whole image once scaled.
        offset: int32 [2], row and column of the frame at which its corner lies; may be negative.
        frame: int32 [2], rows and columns of the frame.
        min_visible: an object stays if at least this fraction of its box, and some of it, is in the frame.
        pad_value: R, G and B around the image; empty: 0.

    Returns:
        float32 image of the frame's size, boxes normalised to it.
    """
    begin = tf.clip_by_value(-offset, 0, scaled)
    window = Window(begin, tf.clip_by_value(frame - offset, begin, scaled) - begin)
    before = tf.clip_by_value(offset, 0, frame)
    room = tf.stack([before, frame - before - window.size], axis=1)
    image = crop_image(resize_pixels(sample.image, scaled, half_pixel_centers=True), window)
    colour = tf.constant(pad_value or (0.0, 0.0, 0.0), tf.float32)
    image = tf.pad(image - colour, tf.pad(room, [[0, 1], [0, 0]])) + colour
    masks = sample.truth.masks
    if masks.shape[1:] != [0, 0]:
        masks = crop_masks(resize_masks(masks, scaled, half_pixel_centers=True), window)
        masks = _padded_masks(masks, room)
    size, corner = tf.cast(scaled, tf.float32), tf.cast(offset, tf.float32)
    seen = tf.concat([-corner / size, (tf.cast(frame, tf.float32) - corner) / size], 0)
    truth = sample.truth._replace(masks=masks)
    return sample._replace(
        image=image, truth=crop_truth(truth, seen, overlap_thresh=min_visible, clip_boxes=True)
    )


def _padded_masks(masks: tf.Tensor, room: tf.Tensor) -> tf.Tensor:
    """Pad [G, H, W] by int32 [2, 2]: rows above and below, columns left and right."""
    return tf.ensure_shape(tf.pad(masks, tf.pad(room, [[1, 0], [0, 0]])), [None, None, None])


def in_larger_frame(
    truth: GroundTruth, *, corner: tf.Tensor, frame: tf.Tensor, larger: tf.Tensor
) -> GroundTruth:
    """Bring objects of a frame into the larger frame that it is a part of.

    Args:
        truth: normalised to the frame.
        corner: int32 [2], row and column of the larger frame at which the frame lies.
        frame: int32 [2], its rows and columns.
        larger: int32 [2], those of the larger one.
    """
    shift, size, whole = (tf.cast(side, tf.float32) for side in (corner, frame, larger))
    room = tf.stack([corner, larger - corner - frame], axis=1)
    return truth._replace(
        boxes=(truth.boxes * tf.tile(size, [2]) + tf.tile(shift, [2])) / tf.tile(whole, [2]),
        keypoints=(truth.keypoints * size + shift) / whole,
        masks=truth.masks if truth.masks.shape[1:] == [0, 0] else _padded_masks(truth.masks, room),
    )


def joined_objects(truths: list[GroundTruth]) -> GroundTruth:
    """Return the objects of several images of one frame and size, in the order of the images."""
    return GroundTruth(*[tf.concat(fields, 0) for fields in zip(*truths, strict=True)])
