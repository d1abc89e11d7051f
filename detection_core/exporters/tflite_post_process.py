"""Post-processing in TensorFlow Lite files: one operation that the converter recognises, or built-in ones."""

import dataclasses
from collections.abc import Callable

import tensorflow as tf

from detection_core.allowed_values import OPERATION
from detection_core.ops.detection_post_process import PostProcessed
from detection_core.ops.post_process_options import PostProcessOptions

# The float32 next to 1: a factor of 1 would be folded.
KEEPS_FLOAT = 1.0 + 2.0**-23


def attribute_text(options: PostProcessOptions) -> str:
    """Return the text by which the converter recognises the operation and its attributes."""
    kinds: dict[type, str] = {bool: "b: {}", int: "i: {}", float: "f: {:f}"}
    lines = [f'name: "{OPERATION}"']
    for field in dataclasses.fields(options):
        if field.name == "detections_per_class":
            continue  # in the kernel, but unknown to the converter
        value = getattr(options, field.name)
        text = kinds[type(value)].format(str(value).lower() if isinstance(value, bool) else value)
        lines.append(f'attr {{ key: "{field.name}" value {{ {text} }} }}')
    return " ".join(lines)


def post_process_function(options: PostProcessOptions) -> Callable[..., PostProcessed]:
    """Make a function that the converter replaces by the operation.

    Returns:
        (box codes [1, A, 4], scores [1, A, C] or, with the background first, [1, A, C + 1], anchors [A, 4] as
        y, x, h, w) -> `PostProcessed`. In TensorFlow it returns zeros: it is only a placeholder for the
        converter.
    """
    rows = options.rows

    @tf.function(experimental_implements=attribute_text(options), autograph=False)
    def operation(box_codes: tf.Tensor, scores: tf.Tensor, anchors: tf.Tensor) -> tuple[tf.Tensor, ...]:
        shapes = {"boxes": [1, rows, 4], "classes": [1, rows], "scores": [1, rows], "count": [1]}
        return tuple(tf.zeros(shape, name=name) for name, shape in shapes.items())

    def post_process(box_codes: tf.Tensor, scores: tf.Tensor, anchors: tf.Tensor) -> PostProcessed:
        # NNAPI's operation always takes the background's column; LiteRT's ignores it.
        missing = options.num_classes + 1 - scores.shape[2]
        if missing:
            scores = tf.pad(scores, [[0, 0], [0, 0], [missing, 0]])
        found = PostProcessed(*operation(box_codes, scores, anchors))
        if rows == options.max_detections:
            return found
        # The operation lists rows by box, counts boxes instead of rows, and leaves the other rows unwritten.
        filled = found.count * float(rows // options.max_detections)
        written = tf.range(rows, dtype=tf.float32)[tf.newaxis] < filled[:, tf.newaxis]
        scores, order = tf.math.top_k(tf.where(written, found.scores, 0.0), options.max_detections)
        return PostProcessed(
            boxes=tf.gather(found.boxes[0], order[0])[tf.newaxis],
            classes=tf.gather(found.classes[0], order[0])[tf.newaxis],
            scores=scores,
            count=tf.minimum(filled, float(options.max_detections)),
        )

    return post_process


def centred(boxes: tf.Tensor) -> tf.Tensor:
    """Convert (ymin, xmin, ymax, xmax) to (y, x, height, width) with the centre: the operation's anchors."""
    low, high = boxes[..., :2], boxes[..., 2:]
    return tf.concat([(low + high) / 2, high - low], -1)


def kept_in_float(values: tf.Tensor) -> tf.Tensor:
    """Keep the operations after an integer network's logits, or after its scores, in float.

    Without an operation in between, the converter quantizes the score conversion. But 256 scores are too few
    to rank detections. It also knows a sigmoid's range: before operations that only move values (PAD,
    RESHAPE, GATHER, maxima) it quantizes scores again. So these need an operation, too.
    """
    return values * KEEPS_FLOAT


# LiteRT's kernel drops class T when it runs with T > 1 threads; with two classes or fewer it drops none.
CLASSES_OF_THREADS = 2
# Boxes that the kernel keeps per class, because the converter drops the attribute.
KERNEL_DETECTIONS_PER_CLASS = 100


def kernel_is_right(options: PostProcessOptions) -> bool:
    """Return whether the operation's results do not depend on threads, and keep the attributes."""
    if not options.use_regular_nms:
        return True
    kept, by_kernel = (
        min(each, options.max_detections)
        for each in (options.detections_per_class, KERNEL_DETECTIONS_PER_CLASS)
    )
    return options.num_classes <= CLASSES_OF_THREADS and kept == by_kernel
