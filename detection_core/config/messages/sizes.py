"""Image resizers, the size of the network's input, and a bound on the memory that a config needs."""

from collections.abc import Iterator
from typing import Any, NamedTuple, cast

from detection_core.errors import Problem
from detection_core.protos.image_resizer_pb2 import ImageResizer


def network_size(message: ImageResizer) -> tuple[int, int] | None:
    """Return rows and columns of every resized and padded image; None if sizes differ between images."""
    arm = message.WhichOneof("image_resizer_oneof")
    resizer: Any = getattr(message, arm or "", None)
    if arm in ("fixed_shape_resizer", "automl_resizer"):
        return resizer.height, resizer.width
    if arm == "keep_aspect_ratio_resizer" and resizer.pad_to_max_dimension:
        return resizer.max_dimension, resizer.max_dimension
    return None


def one_size_problems(message: ImageResizer, path: str) -> Iterator[Problem]:
    """Find a resizer that gives images of different sizes, which no one-stage detector here accepts."""
    arm = message.WhichOneof("image_resizer_oneof")
    if arm is not None and network_size(message) is None:
        text = (
            "expected a resizer with one output size, fixed_shape_resizer, automl_resizer or"
            f" keep_aspect_ratio_resizer with pad_to_max_dimension: true, found {arm}; change the"
            " image_resizer"
        )
        yield Problem(path=path, message=text)


def fixed_size(message: ImageResizer) -> tuple[int, int]:
    """Return rows and columns of every image of a checked one-stage detector."""
    return cast(tuple[int, int], network_size(message))


def fixed_size_problems(message: ImageResizer, path: str) -> Iterator[Problem]:
    """Find a resizer of a model that gives several sizes or pads; a TensorFlow Lite file stretches images."""
    found, path = message.WhichOneof("image_resizer_oneof"), f"{path}.image_resizer"
    if found == "fixed_shape_resizer":
        return
    size, remedy = network_size(message), "train with a fixed size"
    if size is not None:
        rows, columns = size
        remedy = f"train with {path}={{fixed_shape_resizer {{height: {rows} width: {columns}}}}}"
    text = (
        "expected fixed_shape_resizer, as a TensorFlow Lite file has one input size, which fills without"
        f" padding, found {found}; {remedy}"
    )
    yield Problem(path=path, message=text)


MAX_IMAGE_PIXELS = 2**26
"""Maximum pixels of the network's input, 8,192 x 8,192."""
MAX_BATCH_PIXELS = 2**32
"""Maximum pixels of a batch: 48 GiB of float32 with three channels."""
MAX_ANCHORS = 2**23
MAX_SCORES = 2**31
"""Maximum scores and box codes of an image: 8 GiB of float32."""
MAX_PREDICTOR_CHANNELS = 2**23
"""Maximum channels of a layer that predicts scores; with 256 input channels its kernel has 2^31 numbers."""


def image_size_problems(
    resizer: ImageResizer, path: str, batch_size: int
) -> tuple[list[Problem], tuple[int, int] | None]:
    """Find too large images or batches; also return the input size, None if unknown or too large."""
    size = network_size(resizer)
    if size is None or min(size) < 1:
        return [], None
    pixels = size[0] * size[1]
    if pixels > MAX_IMAGE_PIXELS:
        return [_too_many("pixels of an image", pixels, MAX_IMAGE_PIXELS, path, "make images smaller")], None
    if batch_size * pixels > MAX_BATCH_PIXELS:
        what = f"pixels of a batch of {size[0]:,} x {size[1]:,} images"
        found = batch_size * pixels
        return [_too_many(what, found, MAX_BATCH_PIXELS, "train_config.batch_size", "lower it")], size
    return [], size


class Laid(NamedTuple):
    """Number of anchors of an image, the maximum at one location, and the field that sets it."""

    anchors: int
    most: int
    path: str


def prediction_problems(laid: Laid, num_classes: int, path: str) -> Iterator[Problem]:
    """Find too many anchors, scores or head channels for memory; `path` is that of the number of classes."""
    columns, fewer = num_classes + 4, "use fewer classes or anchors"
    if laid.anchors > MAX_ANCHORS:
        advice = "give fewer aspect_ratios or scales, or coarser levels"
        yield _too_many("anchors on an image", laid.anchors, MAX_ANCHORS, laid.path, advice)
    elif laid.anchors * columns > MAX_SCORES:
        what = f"scores and codes of {laid.anchors:,} anchors"
        yield _too_many(what, laid.anchors * columns, MAX_SCORES, path, fewer)
    elif laid.most * columns > MAX_PREDICTOR_CHANNELS:
        what = f"channels of the layer that predicts {laid.most} anchors"
        yield _too_many(what, laid.most * columns, MAX_PREDICTOR_CHANNELS, path, fewer)


def _too_many(what: str, found: int, most: int, path: str, advice: str) -> Problem:
    return Problem(path=path, message=f"expected at most {most:,} {what}, found {found:,}; {advice}")
