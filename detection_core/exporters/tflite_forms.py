"""Input and output layouts of TensorFlow Lite files."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from detection_core.allowed_values import TFLITE_FORMS
from detection_core.artifacts.tflite_metadata import BoxDecoding
from detection_core.detectors.family import Normalisation
from detection_core.exporters import tflite_post_process
from detection_core.ops.detection_post_process import foreground, plain_post_process
from detection_core.ops.post_process_options import PostProcessOptions
from detection_core.structures import COLOURS

PIXELS: Normalisation = ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
"""No normalisation: pixels 0..255.

Metadata allows a mean and a std for each channel. But consumers such as MediaPipe's ObjectDetector support
one for all, and refuse floating-point files with more. So the input is raw pixels if channels differ.
"""


def file_normalisation(normalisation: Normalisation) -> Normalisation:
    """Return the mean and std of a file's input, (pixel - mean) / std, from those of the network."""
    return normalisation if _is_alike(normalisation) else PIXELS


def network_input(values: tf.Tensor, normalisation: Normalisation, *, integer: bool) -> tf.Tensor:
    """Convert a file's input to its network's input.

    If channels differ, this is a convolution, which also exists in integers. Its kernel is diagonal, so
    per-channel scales hold each channel's factor exactly; its bias has 32 bits.

    Args:
        values: float32 [1, H, W, 3], as in `file_normalisation`.
        normalisation: mean and std of the network's input, (pixel - mean) / std.
        integer: whether the file will be in 8-bit integers.
    """
    if _is_alike(normalisation):
        return values
    mean, std = (np.asarray(each, np.float32) for each in normalisation)
    kernel = tf.constant(np.diag(1 / std)[np.newaxis, np.newaxis])
    if integer:
        values = tf.quantization.fake_quant_with_min_max_args(values, 0.0, 255.0)
        kernel = tf.quantization.fake_quant_with_min_max_vars_per_channel(
            kernel, -1 / std, 1 / std, narrow_range=True
        )
    return tf.nn.bias_add(tf.nn.conv2d(values, kernel, 1, "VALID"), -mean / std)


def _is_alike(normalisation: Normalisation) -> bool:
    return all(len(set(each)) == 1 for each in normalisation)


def normalisation_of(preprocess: Callable[[tf.Tensor], tf.Tensor], channels: int = COLOURS) -> Normalisation:
    """Return the mean and std per channel for which a preprocessing is (pixel - mean) / std.

    They are rounded to float32's precision here, so that equally treated channels have equal numbers.
    """
    low, high = (preprocess(tf.fill([1, 1, 1, channels], level)).numpy().ravel() for level in (0.0, 255.0))
    std = 255.0 / (high - low)
    return _rounded(-low * std), _rounded(std)


def _rounded(values: np.ndarray) -> tuple[float, ...]:
    return tuple(float(f"{value:.6g}") for value in values)


def input_normalisation(detector: Any) -> Normalisation:
    """Return mean and std of each channel; the file's input is (pixel - mean) / std."""
    return file_normalisation(normalisation_of(detector.preprocess, detector.channels))


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


def head_options(model: Any, options: PostProcessOptions, *, integer: bool) -> HeadOptions:
    """Return the meaning of a one-stage network's heads; `integer`: they will be in integers."""
    return HeadOptions(
        post_process=options,
        anchors=tflite_post_process.centred(tf.constant(model.anchors)),
        to_scores=model.class_scores,
        sigmoid=model.scores_are_sigmoids,
        integer=integer,
    )


def _scores(logits: tf.Tensor, options: HeadOptions, *, moved: bool) -> tf.Tensor:
    """Convert logits to scores, which stay float in an integer file.

    Set `moved` if only operations that move values follow, such as PAD; post-processing itself takes only
    floats.
    """
    if not options.integer:
        return options.to_scores(logits)
    scores = options.to_scores(tflite_post_process.kept_in_float(logits))
    return tflite_post_process.kept_in_float(scores) if moved else scores


def _post_processed(options: HeadOptions, *, plain: bool) -> Heads:
    own, keep = options.post_process, None
    is_kernel, classes = not plain and tflite_post_process.kernel_is_right(own), own.num_classes
    if not is_kernel and options.sigmoid and not own.use_regular_nms:
        keep = tflite_post_process.kept_in_float if options.integer else tf.identity
    make = tflite_post_process.post_process_function
    post_process = make(own) if is_kernel else plain_post_process(own, keep)

    def give(box_codes: tf.Tensor, logits: tf.Tensor) -> Outputs:
        moved = not is_kernel or logits.shape[2] == classes
        scores = logits if keep else _scores(logits, options, moved=moved)
        found = post_process(box_codes, scores, options.anchors)
        return found.count, found.scores, found.classes, found.boxes

    return give


def _headless(options: HeadOptions) -> Heads:
    """Return codes and scores of every anchor; the whole file may run on an accelerator."""
    classes = options.post_process.num_classes

    def give(box_codes: tf.Tensor, logits: tf.Tensor) -> Outputs:
        # The consumer applies the sigmoid.
        scores = logits if options.sigmoid else _scores(logits, options, moved=True)
        return {"location": tf.identity(box_codes), "score": foreground(scores, classes)}

    return give


_MAKERS: Sequence[Callable[[HeadOptions], Heads]] = (
    functools.partial(_post_processed, plain=False),
    functools.partial(_post_processed, plain=True),
    _headless,
)
_FORMS = dict(zip(TFLITE_FORMS, _MAKERS, strict=True))


def one_stage_function(
    run: Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]],
    preprocess: Callable[[tf.Tensor], tf.Tensor],
    heads: HeadOptions,
    spec: tf.TensorSpec,
    *,
    form: str,
) -> Any:
    """Create the function to convert: one image in, the outputs of the form out.

    These are count, scores, classes and boxes; without post-processing, the heads by name.

    Args:
        run: preprocessed image -> (box codes, class logits).
        preprocess: pixels -> preprocessed image.
        heads: meaning of the heads.
        spec: input, float32 [1, H, W, 3], normalised as in `file_normalisation`.
        form: of `allowed_values.TFLITE_FORMS`.
    """
    normalisation, give = normalisation_of(preprocess, spec.shape[-1]), _FORMS[form](heads)

    def serve(pixels: tf.Tensor) -> Outputs:
        return give(*run(network_input(pixels, normalisation, integer=heads.integer)))

    return tf.function(serve, autograph=False).get_concrete_function(spec)


def decoding_of(heads: HeadOptions) -> BoxDecoding:
    """Return how to decode the outputs of a file without post-processing."""
    # Nine digits are enough for a float32; scores are never below 0, and JSON has no infinity.
    least = max(0.0, heads.post_process.nms_score_threshold)
    return BoxDecoding(
        anchors=[[float(f"{side:.9g}") for side in anchor] for anchor in heads.anchors.numpy().tolist()],
        sigmoid=heads.sigmoid,
        post_process=dataclasses.replace(heads.post_process, nms_score_threshold=least),
    )
