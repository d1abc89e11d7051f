"""Run a detector that is a function of one image; check the outputs of any."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from detection_core.data.decode import ADDITIONAL_CHANNELS
from detection_core.errors import ModelError
from detection_core.ops.mask_runs import paste_masks
from detection_core.structures import FIRST_CLASS, Instances

OUTPUTS = ("detection_boxes", "detection_scores", "detection_classes", "num_detections")
OPTIONAL_OUTPUTS = ("detection_masks", "detection_keypoints")


class Runner(Protocol):
    """A detector that takes one image at a time."""

    @property
    def path(self) -> str:
        """Source of the detector."""
        ...

    def __call__(self, image: np.ndarray, source_id: str = "") -> Instances:
        """Detect objects.

        Args:
            image: uint8 [H, W, 3], RGB, of any size.
            source_id: id of the detections.

        Raises:
            ModelError: if the detector returns NaN or infinity.
        """
        ...


def check_channels(image: np.ndarray, channels: int | None, where: str) -> None:
    """Refuse an image of another number of channels than a detector's; ModelError names the detector."""
    if channels not in (None, image.shape[-1]):
        raise ModelError(
            f"expected images of {channels} channels, found {image.shape[-1]}; give it records with"
            f" {ADDITIONAL_CHANNELS}, and num_additional_channels of their reader",
            where=where,
        )


class SignatureRunner:
    """A function with the inputs and outputs of the Object Detection API's `image_tensor` signature."""

    takes_batches = False
    channels: int | None = None
    """Channels of its images, where known."""

    def __init__(self, function: Callable[[tf.Tensor], Mapping[str, Any]], path: str) -> None:
        """Take a function from an image, uint8 [1, H, W, 3], to `OUTPUTS`, and its source, for errors.

        It may also give detection_masks and detection_keypoints.
        """
        self.path = path
        self._function = function

    def __call__(self, image: np.ndarray, source_id: str = "") -> Instances:
        """Detect objects; see `Runner`."""
        return self.detect([image], [source_id])[0]

    def detect(self, images: Sequence[np.ndarray], source_ids: Sequence[str]) -> list[Instances]:
        """Detect objects in images of one size, in one call; several only if `takes_batches`."""
        check_channels(images[0], self.channels, self.path)
        try:
            given = self._function(tf.constant(np.stack(images)))
            found = {name: np.asarray(given[name]) for name in (*OUTPUTS, *OPTIONAL_OUTPUTS) if name in given}
            rows = [{name: values[i] for name, values in found.items()} for i in range(len(images))]
        except (tf.errors.OpError, ValueError, IndexError) as error:
            raise ModelError(
                f"expected a detector of one image, found one that fails on image {source_ids[0]!r}"
                f" ({first_line(error)}); export the model again",
                where=self.path,
            ) from error
        size = (images[0].shape[0], images[0].shape[1])
        return [self._checked(row, size, name) for row, name in zip(rows, source_ids, strict=True)]

    def _checked(self, found: dict[str, np.ndarray], size: tuple[int, int], source_id: str) -> Instances:
        count, rows = found["num_detections"], len(found["detection_scores"])
        if not np.isfinite(count) or not 0 <= count <= rows:
            raise ModelError(
                f"expected 0 to {rows} detections in num_detections for image {source_id!r}, found {count};"
                " export the model again",
                where=self.path,
            )
        # Its classes are numbered as in the label map; a TensorFlow Lite file's start at 0.
        found["detection_classes"] = found["detection_classes"] - FIRST_CLASS
        outputs = {name.removeprefix("detection_"): values for name, values in found.items()}
        return checked_detections(outputs, int(count), size, source_id=source_id, where=self.path)


def detect_batch(runner: Runner, images: Sequence[np.ndarray], source_ids: Sequence[str]) -> list[Instances]:
    """Detect objects in images of one size, in one call if the detector takes several, else one by one."""
    if isinstance(runner, SignatureRunner) and runner.takes_batches and images:
        return runner.detect(images, source_ids)
    return [runner(image, name) for image, name in zip(images, source_ids, strict=True)]


def first_line(error: Exception) -> str:
    """Return the first line of a TensorFlow error; the rest describes its graph."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


MOST_CLASS = 2**24
"""Above it, float32, in which models return classes, cannot represent every integer."""


_REQUIRED = ("boxes", "scores", "classes")


def checked_detections(
    outputs: Mapping[str, np.ndarray], count: int, size: tuple[int, int], *, source_id: str, where: str
) -> Instances:
    """Remove the padding of a detector's outputs and check their values.

    Args:
        outputs: float32 boxes [D, 4], scores [D] and classes [D], whole numbers from 0. Optional, as in
            `Detections`: masks [D, h, w] in the frame of the box, and keypoints [D, K, 2], which become NaN
            where an object's are all 0. Others are left out.
        count: number of rows that are detections.
        size: rows and columns of the image, pixels.
        source_id: of the image.
        where: the model, for errors.

    Raises:
        ModelError: for NaN or infinity among the detections, for invalid classes, and if the numbers of
            boxes, classes and scores differ.
    """
    _check_shapes(outputs, count, source_id, where)
    found = {name: outputs[name][:count] for name in (*_REQUIRED, "masks", "keypoints") if name in outputs}
    for name, values in found.items():
        if not np.isfinite(values).all():
            raise ModelError(
                f"expected finite {name} for image {source_id!r}, found {values[~np.isfinite(values)][0]};"
                " the training diverged or the conversion broke the model: look at its loss, lower the"
                " learning rate or clip gradients",
                where=where,
            )
    classes = found["classes"]
    if classes.size and not 0 <= classes.min() <= classes.max() <= MOST_CLASS:
        raise ModelError(
            f"expected classes of a label map for image {source_id!r}, found numbers from {classes.min()} to"
            f" {classes.max()}; export the model again",
            where=where,
        )
    order = np.argsort(-found["scores"], kind="stable")
    found = {name: values[order].astype(np.float32) for name, values in found.items()}
    if "keypoints" in found:
        # Detectors return zeros for an object whose class has no keypoints.
        found["keypoints"][~found["keypoints"].any(axis=(1, 2))] = np.nan
    if "masks" in found:
        found["masks"] = paste_masks(found["masks"], found["boxes"], *size)
    found["classes"] = np.rint(classes[order]).astype(np.int32)
    return Instances(source_id=source_id, height=size[0], width=size[1], **found)


def _check_shapes(outputs: Mapping[str, np.ndarray], count: int, source_id: str, where: str) -> None:
    boxes, scores, classes = (outputs[name] for name in _REQUIRED)
    if boxes.shape != (len(scores), 4) or scores.shape != classes.shape or scores.ndim != 1 or count < 0:
        raise ModelError(
            f"expected boxes [D, 4], scores [D], classes [D] and a count for image {source_id!r}, found"
            f" {list(boxes.shape)}, {list(scores.shape)}, {list(classes.shape)} and {count}; export the model"
            " again",
            where=where,
        )
    masks, keypoints = outputs.get("masks", boxes[:, None]), outputs.get("keypoints", boxes[:, None, :2])
    if masks.ndim != 3 or keypoints.shape[2:] != (2,) or {len(masks), len(keypoints)} != {len(scores)}:
        raise ModelError(
            f"expected masks [D, h, w] and keypoints [D, K, 2] of {len(scores)} detections for image"
            f" {source_id!r}, found {list(masks.shape)} and {list(keypoints.shape)}; export the model again",
            where=where,
        )
