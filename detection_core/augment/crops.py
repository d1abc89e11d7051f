"""Random crops that keep enough of the objects, and placement of images in frames."""

import dataclasses
from typing import NamedTuple

import tensorflow as tf

from detection_core.augment.augmentation import random_int, skip_with_probability, uniforms
from detection_core.ops import boxes as box_ops
from detection_core.ops.objects import hide_outside, keep_objects, keypoints_in_window, with_keypoints
from detection_core.ops.resampling import canvas_colour, resize_masks, resize_pixels
from detection_core.structures import GroundTruth, Sample


class Window(NamedTuple):
    """A part of an image: first row and column, and number of rows and columns, int32 [2]."""

    begin: tf.Tensor
    size: tf.Tensor


def crop_image(image: tf.Tensor, window: Window) -> tf.Tensor:
    """Crop [H, W, c] to the window."""
    begin, size = tf.pad(window.begin, [[0, 1]]), tf.pad(window.size, [[0, 1]], constant_values=-1)
    return tf.ensure_shape(tf.slice(image, begin, size), [None, None, image.shape[-1]])


def crop_masks(masks: tf.Tensor, window: Window) -> tf.Tensor:
    """Crop masks [G, H, W] to the window; zero-sized masks are unchanged."""
    if masks.shape[1:] == [0, 0]:
        return masks
    zero, all_objects = tf.zeros([1], tf.int32), tf.shape(masks)[:1]
    cut = tf.slice(masks, tf.concat([zero, window.begin], 0), tf.concat([all_objects, window.size], 0))
    return tf.ensure_shape(cut, [None, None, None])


def pad_masks(masks: tf.Tensor, room: tf.Tensor) -> tf.Tensor:
    """Pad masks [G, H, W] with zeros; zero-sized masks are unchanged.

    `room` is int32 [2, 2]: rows above and below, columns left and right.
    """
    if masks.shape[1:] == [0, 0]:
        return masks
    return tf.ensure_shape(tf.pad(masks, tf.concat([[[0, 0]], room], 0)), [None, None, None])


def pad_image(image: tf.Tensor, room: tf.Tensor) -> tf.Tensor:
    """Pad [H, W, c] with zeros; see `pad_masks` for `room`."""
    padded = tf.pad(image, tf.concat([room, [[0, 0]]], 0))
    return tf.ensure_shape(padded, [None, None, image.shape[-1]])


def crop_and_pad(
    image: tf.Tensor, masks: tf.Tensor, window: Window, room: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Crop [H, W, c] and masks [G, H, W] to a window, which may be empty, then pad them with zeros."""
    # The cropped masks of an empty window look like unused ones, so ask the masks before the crop.
    if masks.shape[1:] != [0, 0]:
        masks = tf.pad(crop_masks(masks, window), tf.concat([[[0, 0]], room], 0))
        masks = tf.ensure_shape(masks, [None, None, None])
    return pad_image(crop_image(image, window), room), masks


def truth_in_window(truth: GroundTruth, window: tf.Tensor) -> GroundTruth:
    """Normalise boxes and keypoints to a window [4], without clipping; masks are unchanged."""
    keypoints = keypoints_in_window(truth.keypoints, window)
    return truth._replace(boxes=box_ops.change_frame(truth.boxes, window), keypoints=keypoints)


def visible_fraction(boxes: tf.Tensor, window: tf.Tensor) -> tf.Tensor:
    """Return float32 [G], the fraction of each box's area in the window [4]; 0 for a box without area."""
    clipped = tf.concat([tf.maximum(boxes[:, :2], window[:2]), tf.minimum(boxes[:, 2:], window[2:])], 1)
    inside = tf.reduce_prod(tf.maximum(clipped[:, 2:] - clipped[:, :2], 0.0), axis=1)
    return tf.math.divide_no_nan(inside, tf.reduce_prod(boxes[:, 2:] - boxes[:, :2], axis=1))


def crop_truth(
    truth: GroundTruth, window: tf.Tensor, *, overlap_thresh: tf.Tensor | float, clip_boxes: tf.Tensor | bool
) -> GroundTruth:
    """Normalise objects to a window and drop mostly hidden ones; masks are not cropped.

    Args:
        truth: unbatched.
        window: float32 [4], in the frame of the boxes.
        overlap_thresh: an object stays if at least this fraction of its box, and more than 0, is inside.
        clip_boxes: clip boxes to the window, and hide keypoints outside it.
    """
    boxes = truth.boxes
    touches = tf.reduce_all((boxes[:, :2] < window[2:]) & (boxes[:, 2:] > window[:2]), axis=1)
    truth = keep_objects(truth, touches & (visible_fraction(boxes, window) >= overlap_thresh))
    truth = truth_in_window(truth, window)
    clipped = tf.clip_by_value(truth.boxes, 0.0, 1.0)
    hidden = hide_outside(truth.keypoints, tf.constant([0.0, 0.0, 1.0, 1.0]))
    truth = with_keypoints(truth, tf.where(clip_boxes, hidden, truth.keypoints))
    return truth._replace(boxes=tf.where(clip_boxes, clipped, truth.boxes))


def crop(
    sample: Sample, window: Window, *, overlap_thresh: tf.Tensor | float, clip_boxes: tf.Tensor | bool
) -> Sample:
    """Crop a sample to a window; see `crop_truth` for the objects."""
    corners = tf.cast(tf.concat([window.begin, window.begin + window.size], 0), tf.float32)
    frame = corners / tf.cast(tf.tile(tf.shape(sample.image)[:2], [2]), tf.float32)
    truth = sample.truth._replace(masks=crop_masks(sample.truth.masks, window))
    truth = crop_truth(truth, frame, overlap_thresh=overlap_thresh, clip_boxes=clip_boxes)
    return sample._replace(image=crop_image(sample.image, window), truth=truth)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RandomCropImage:
    """Crop a random window, with a probability.

    Attributes:
        min_object_covered: fraction of at least one box that the window must hold.
        aspect_ratio_range: smallest and largest width / height of the window.
        area_range: smallest and largest fraction of the image's area.
        overlap_thresh: objects with a smaller fraction inside are dropped.
        clip_boxes: clip boxes to the window, and hide keypoints outside it.
        random_coef: probability of no crop.
    """

    min_object_covered: float = 1.0
    aspect_ratio_range: tuple[float, float] = (0.75, 1.33)
    area_range: tuple[float, float] = (0.1, 1.0)
    overlap_thresh: float = 0.3
    clip_boxes: bool = True
    random_coef: float = 0.0

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Augment the sample."""

        def change(sample: Sample) -> Sample:
            window = draw_window(sample, tf.random.fold_in(seed, 1), self, self.min_object_covered)
            return crop(sample, window, overlap_thresh=self.overlap_thresh, clip_boxes=self.clip_boxes)

        return skip_with_probability(uniforms(seed, 1)[0], self.random_coef, change, sample)


def draw_window(
    sample: Sample, seed: tf.Tensor, ranges: RandomCropImage, min_object_covered: tf.Tensor | float
) -> Window:
    """Draw a window within the ranges of area and aspect ratio.

    After a hundred failed attempts, it is the whole image. The window holds at least the fraction
    `min_object_covered` of one or more of the sample's boxes.
    """
    boxes = tf.clip_by_value(sample.truth.boxes, 0.0, 1.0)
    begin, size, _ = tf.image.stateless_sample_distorted_bounding_box(
        tf.shape(sample.image),
        boxes[tf.newaxis],
        seed,
        min_object_covered=min_object_covered,
        aspect_ratio_range=ranges.aspect_ratio_range,
        area_range=ranges.area_range,
        max_attempts=100,
        use_image_if_no_bounding_boxes=True,
    )
    return Window(begin[:2], size[:2])


@dataclasses.dataclass(frozen=True, kw_only=True)
class OneOfCrops:
    """Apply one of several random crops, each with equal probability: SSD's crop.

    Liu et al., "SSD: Single Shot MultiBox Detector", 2016, section 2.2, https://arxiv.org/abs/1512.02325.

    Attributes:
        crops: to choose from.
    """

    crops: tuple[RandomCropImage, ...]

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Augment the sample."""
        draws = uniforms(seed, 2)
        choice = random_int(draws[0], 0, len(self.crops) - 1)
        window_seed = tf.random.fold_in(seed, 1)

        def change(sample: Sample) -> Sample:
            return crop(
                sample,
                self._window(sample, choice, window_seed),
                overlap_thresh=tf.gather([c.overlap_thresh for c in self.crops], choice),
                clip_boxes=tf.gather([c.clip_boxes for c in self.crops], choice),
            )

        random_coef = tf.gather([c.random_coef for c in self.crops], choice)
        return skip_with_probability(draws[1], random_coef, change, sample)

    def _window(self, sample: Sample, choice: tf.Tensor, seed: tf.Tensor) -> Window:
        if len({(c.aspect_ratio_range, c.area_range) for c in self.crops}) == 1:
            # Usually the ranges are equal, and one operation serves all crops.
            return draw_window(
                sample, seed, self.crops[0], tf.gather([c.min_object_covered for c in self.crops], choice)
            )
        windows = [lambda c=c: draw_window(sample, seed, c, c.min_object_covered) for c in self.crops]
        return tf.switch_case(choice, windows)


def ssd_crops() -> tuple[RandomCropImage, ...]:
    """Return the SSD paper's crops: one per covered fraction of a box."""
    return tuple(
        RandomCropImage(
            min_object_covered=fraction,
            aspect_ratio_range=(0.5, 2.0),
            area_range=(0.1, 1.0),
            overlap_thresh=fraction,
            clip_boxes=True,
            random_coef=0.15,
        )
        for fraction in (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class RandomCropToAspectRatio:
    """Crop the image to an aspect ratio, at a random offset.

    Attributes:
        aspect_ratio: width / height of the result.
        overlap_thresh: objects with a smaller fraction inside are dropped.
        clip_boxes: clip boxes to the window, and hide keypoints outside it.
    """

    aspect_ratio: float = 1.0
    overlap_thresh: float = 0.3
    clip_boxes: bool = True

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Augment the sample."""
        size = tf.shape(sample.image)[:2]
        target = size_of_aspect_ratio(size, self.aspect_ratio)
        begin = random_int(uniforms(seed, 2), 0, size - target)
        return crop(
            sample, Window(begin, target), overlap_thresh=self.overlap_thresh, clip_boxes=self.clip_boxes
        )


def size_of_aspect_ratio(size: tf.Tensor, aspect_ratio: float) -> tf.Tensor:
    """Return the largest int32 [2] size with this width / height that fits into int32 [2] `size`."""
    height, width = tf.cast(size[0], tf.float32), tf.cast(size[1], tf.float32)
    fitting = tf.cast(tf.round([width / aspect_ratio, height * aspect_ratio]), tf.int32)
    return tf.clip_by_value(fitting, 1, size)


def fitting_size(sample: Sample, frame: tf.Tensor, factor: tf.Tensor | float = 1.0) -> tf.Tensor:
    """Return int32 [2], the image's size scaled by `factor` times what fits it into a frame [2]."""
    size = tf.cast(tf.shape(sample.image)[:2], tf.float32)
    fitting = tf.reduce_min(tf.cast(frame, tf.float32) / size)
    return tf.maximum(tf.cast(tf.round(size * fitting * factor), tf.int32), 1)


def place(
    sample: Sample,
    *,
    scaled: tf.Tensor,
    offset: tf.Tensor,
    frame: tf.Tensor,
    min_visible: float = 0.0,
    pad_value: tuple[float, ...] = (),
) -> Sample:
    """Scale an image and place it in a frame; parts outside are cut off.

    Args:
        sample: boxes normalised to the image.
        scaled: int32 [2], rows and columns of the whole image after scaling.
        offset: int32 [2], row and column of its corner in the frame; may be negative.
        frame: int32 [2], rows and columns of the frame.
        min_visible: an object stays if at least this fraction of its box, and more than 0, is in the frame.
        pad_value: R, G and B around the image; empty: 0.

    Returns:
        float32 image of the frame's size, boxes normalised to it.
    """
    begin = tf.clip_by_value(-offset, 0, scaled)
    window = Window(begin, tf.clip_by_value(frame - offset, begin, scaled) - begin)
    before = tf.clip_by_value(offset, 0, frame)
    room = tf.stack([before, frame - before - window.size], axis=1)
    image = resize_pixels(sample.image, scaled, half_pixel_centers=True)
    masks = resize_masks(sample.truth.masks, scaled, half_pixel_centers=True)
    colour = canvas_colour(pad_value, image)
    image, masks = crop_and_pad(image - colour, masks, window, room)
    size, corner = tf.cast(scaled, tf.float32), tf.cast(offset, tf.float32)
    seen = tf.concat([-corner / size, (tf.cast(frame, tf.float32) - corner) / size], 0)
    truth = sample.truth._replace(masks=masks)
    truth = crop_truth(truth, seen, overlap_thresh=min_visible, clip_boxes=True)
    return sample._replace(image=image + colour, truth=truth)


def in_larger_frame(
    truth: GroundTruth, *, corner: tf.Tensor, frame: tf.Tensor, larger: tf.Tensor
) -> GroundTruth:
    """Convert objects normalised to a frame to the larger frame that contains it.

    `corner` (of the frame in the larger one), `frame` and `larger` are int32 [2], rows and columns.
    """
    shift, size, whole = (tf.cast(side, tf.float32) for side in (corner, frame, larger))
    room = tf.stack([corner, larger - corner - frame], axis=1)
    return truth._replace(
        boxes=(truth.boxes * tf.tile(size, [2]) + tf.tile(shift, [2])) / tf.tile(whole, [2]),
        keypoints=(truth.keypoints * size + shift) / whole,
        masks=pad_masks(truth.masks, room),
    )


def joined_objects(truths: list[GroundTruth]) -> GroundTruth:
    """Concatenate the objects of several images of equal frame and size."""
    return GroundTruth(*[tf.concat(fields, 0) for fields in zip(*truths, strict=True)])
