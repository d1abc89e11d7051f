"""Output layouts of TensorFlow Lite files."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import tensorflow as tf

from detection_core.allowed_values import TFLITE_FORMS
from detection_core.exporters.tflite_plain_suppression import plain_post_process
from detection_core.exporters.tflite_post_process import (
    PostProcessed,
    PostProcessOptions,
    kept_in_float,
    post_process_function,
)

# LiteRT's kernel drops class T when it runs with T > 1 threads; with two classes or fewer it drops none.
CLASSES_OF_THREADS = 2
# Boxes that the kernel keeps per class, because the converter drops the attribute.
KERNEL_DETECTIONS_PER_CLASS = 100

Outputs = tuple[tf.Tensor, ...] | dict[str, tf.Tensor]
Heads = Callable[[tf.Tensor, tf.Tensor], Outputs]


@dataclasses.dataclass(frozen=True, kw_only=True)
class HeadOptions:
    """Meaning of a network's heads.

    Attributes:
        post_process: box coding and suppression.
        anchors: float32 [A, 4], y, x, height, width.
        to_scores: class logits, [1, A, C] or, with the background first, [1, A, C + 1] -> scores of the same
            shape.
        sigmoid: whether the scores are exactly the logits' sigmoids.
        integer: whether the network's outputs will be integers.
    """

    post_process: PostProcessOptions
    anchors: tf.Tensor
    to_scores: Callable[[tf.Tensor], tf.Tensor]
    sigmoid: bool
    integer: bool


def suppression_function(options: PostProcessOptions) -> Callable[..., PostProcessed]:
    """Make a post-processing function whose results do not depend on the number of threads.

    Returns:
        (box codes [1, A, 4], scores [1, A, C] or, with the background first, [1, A, C + 1], anchors [A, 4] as
        y, x, h, w) -> `PostProcessed`. It uses the operation, or built-in ones if the operation's results
        would differ.
    """
    return post_process_function(options) if _kernel_is_right(options) else plain_post_process(options)


def _kernel_is_right(options: PostProcessOptions) -> bool:
    if not options.use_regular_nms:
        return True
    kept, by_kernel = (
        min(each, options.max_detections)
        for each in (options.detections_per_class, KERNEL_DETECTIONS_PER_CLASS)
    )
    return options.num_classes <= CLASSES_OF_THREADS and kept == by_kernel


def heads_function(form: str, options: HeadOptions) -> Heads:
    """Make a function from a network's heads to a file's outputs.

    Args:
        form: of `allowed_values.TFLITE_FORMS`.
        options: meaning of the heads.

    Returns:
        (box codes [1, A, 4], class logits [1, A, C] or [1, A, C + 1]) -> count, scores, classes, boxes;
        without post-processing, the outputs by name.
    """
    return _FORMS[form](options)


def _scores(logits: tf.Tensor, options: HeadOptions, *, moved: bool) -> tf.Tensor:
    """Convert logits to scores, which stay float in an integer file.

    Set `moved` if only operations that move values follow, such as PAD; post-processing itself takes only
    floats.
    """
    if not options.integer:
        return options.to_scores(logits)
    scores = options.to_scores(kept_in_float(logits))
    return kept_in_float(scores) if moved else scores


def _post_processed(
    make: Callable[[PostProcessOptions], Callable[..., PostProcessed]],
    by_kernel: Callable[[PostProcessOptions], bool],
) -> Callable[..., Heads]:
    def of(options: HeadOptions) -> Heads:
        post_process = make(options.post_process)
        is_kernel, classes = by_kernel(options.post_process), options.post_process.num_classes

        def give(box_codes: tf.Tensor, logits: tf.Tensor) -> Outputs:
            scores = _scores(logits, options, moved=not is_kernel or logits.shape[2] == classes)
            found = post_process(box_codes, scores, options.anchors)
            return found.count, found.scores, found.classes, found.boxes

        return give

    return of


def _headless(options: HeadOptions) -> Heads:
    """Return codes and scores of every anchor; the whole file may run on an accelerator."""
    classes = options.post_process.num_classes

    def give(box_codes: tf.Tensor, logits: tf.Tensor) -> Outputs:
        # The consumer applies the sigmoid.
        scores = logits if options.sigmoid else _scores(logits, options, moved=True)
        return {"location": tf.identity(box_codes), "score": scores[:, :, scores.shape[2] - classes :]}

    return give


_FORMS: Mapping[str, Callable[[HeadOptions], Heads]] = dict(
    zip(
        TFLITE_FORMS,
        (
            _post_processed(suppression_function, _kernel_is_right),
            _post_processed(plain_post_process, lambda _: False),
            _headless,
        ),
        strict=True,
    )
)
