"""What gives anchors their targets, and the losses that compare them."""

from __future__ import annotations

from collections.abc import Iterator

from detection_core.config.problems import Problem
from detection_core.protos.losses_pb2 import Loss
from detection_core.protos.ssd_pb2 import Ssd

# Losses that compare decoded boxes, rather than all numbers of their codes.
_OF_BOXES = ("weighted_giou", "weighted_iou")


def target_problems(ssd: Ssd, path: str) -> Iterator[Problem]:
    """Find classes, coder and losses that contradict each other.

    Args:
        ssd: the model.
        path: its field path.
    """
    if ssd.box_coder.HasField("keypoint_box_coder") and ssd.box_coder.keypoint_box_coder.num_keypoints < 1:
        text = "expected 1 or more keypoints, found 0; set it, or use faster_rcnn_box_coder"
        yield Problem(path=f"{path}.box_coder.keypoint_box_coder.num_keypoints", message=text)
    if ssd.explicit_background_class and ssd.num_classes == 1:
        text = "expected at least one class beside the background, which num_classes counts, found 1"
        yield Problem(path=f"{path}.num_classes", message=f"{text}; set num_classes: 2")
    if ssd.explicit_background_class and ssd.add_background_class:
        text = (
            "expected add_background_class: false beside explicit_background_class: true, as the scores then"
            " have the background's column already; set add_background_class: false"
        )
        yield Problem(path=f"{path}.explicit_background_class", message=text)
    kind = ssd.loss.localization_loss.WhichOneof("localization_loss")
    if ssd.box_coder.HasField("keypoint_box_coder") and kind in _OF_BOXES:
        text = (
            f"expected a loss of codes beside keypoint_box_coder, found {kind}, one of boxes, which never"
            " sees the keypoints; use weighted_smooth_l1"
        )
        yield Problem(path=f"{path}.loss.localization_loss", message=text)
    yield from loss_problems(ssd.loss, f"{path}.loss")


def loss_problems(loss: Loss, path: str) -> Iterator[Problem]:
    """Find ways of choosing examples that exclude each other.

    Args:
        loss: the message.
        path: its field path.
    """
    if loss.HasField("hard_example_miner") and loss.classification_loss.HasField("weighted_sigmoid_focal"):
        text = "expected none beside weighted_sigmoid_focal, which weighs examples itself; remove one"
        yield Problem(path=f"{path}.hard_example_miner", message=text)
    if not loss.HasField("random_example_sampler"):
        return
    if loss.HasField("hard_example_miner"):
        text = "expected hard_example_miner or random_example_sampler, found both; remove one"
        yield Problem(path=f"{path}.random_example_sampler", message=text)
    fraction = loss.random_example_sampler.positive_sample_fraction
    if not 0.0 < fraction <= 1.0:
        place = f"{path}.random_example_sampler.positive_sample_fraction"
        text = f"expected a number above 0, up to 1, found {fraction:g}"
        yield Problem(path=place, message=text)
