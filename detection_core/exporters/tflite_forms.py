"""In which form a TensorFlow Lite file gives its detections."""

from __future__ import annotations

from collections.abc import Callable

from detection_core.exporters.tflite_plain_suppression import plain_post_process
from detection_core.exporters.tflite_post_process import (
    PostProcessed,
    PostProcessOptions,
    post_process_function,
)

# Of so many classes LiteRT's kernel loses none: with T > 1 threads it loses class T.
CLASSES_OF_THREADS = 2
# Boxes of a class that the kernel keeps: the converter does not hand on the attribute.
KERNEL_DETECTIONS_PER_CLASS = 100


def suppression_function(options: PostProcessOptions) -> Callable[..., PostProcessed]:
    """Make a function that gives the same with any number of threads.

    Args:
        options: attributes of the post-processing operation.

    Returns:
        (box codes [1, A, 4], scores [1, A, C + 1], anchors [A, 4] as y, x, h, w) -> `PostProcessed`: by the
        operation, or by built-in ones where it would give something else.
    """
    if not options.use_regular_nms:
        return post_process_function(options)
    kept, by_kernel = (
        min(each, options.max_detections)
        for each in (options.detections_per_class, KERNEL_DETECTIONS_PER_CLASS)
    )
    is_right = options.num_classes <= CLASSES_OF_THREADS and kept == by_kernel
    return post_process_function(options) if is_right else plain_post_process(options)
