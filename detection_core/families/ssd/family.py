"""The record of the family; see `detectors.family`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from detection_core.detectors.family import (
    AnchorFit,
    AnchorSupport,
    CheckpointSupport,
    Family,
    FamilyDescription,
    Normalisation,
    QuantizationSupport,
    TFLiteExport,
    TFLiteOutputOptions,
)
from detection_core.families.ssd.check import RULES, keypoints, size_problems, tflite_problems
from detection_core.families.ssd.extractors import EXTRACTORS, NAMED_EXTRACTORS, backbone

if TYPE_CHECKING:
    import numpy as np
    import tensorflow as tf

    from detection_core.artifacts.tflite_metadata import BoxDecoding
    from detection_core.detectors.base import Detector
    from detection_core.detectors.checkpoint_names import CheckpointNames
    from detection_core.detectors.quantization import QuantizationOptions, QuantizedDetector


def _build(message: Any, where: str, seed: int | None) -> Detector:
    from detection_core.families.ssd.build import build_ssd

    return build_ssd(message, where, seed)


def _describe(message: Any, detector: Any) -> FamilyDescription:
    from detection_core.families.ssd.description import describe_ssd

    return describe_ssd(message, detector)


def _checkpoint_names() -> CheckpointNames:
    from detection_core.families.ssd.checkpoint_names.kinds import SSD_NAMES

    return SSD_NAMES


def _tflite_function(detector: Any, config: Any, options: TFLiteOutputOptions, integer: bool) -> Any:
    from detection_core.families.ssd.tflite import post_process_options, tflite_function

    attributes = post_process_options(config, options)
    return tflite_function(detector, attributes, integer=integer, form=options.form)


def _decoding(detector: Any, config: Any, options: TFLiteOutputOptions) -> BoxDecoding:
    from detection_core.families.ssd.tflite import box_decoding, post_process_options

    return box_decoding(detector, post_process_options(config, options))


def _normalisation(detector: Any) -> Normalisation:
    from detection_core.families.ssd.tflite import input_normalisation

    return input_normalisation(detector)


def _rewrite(detector: Any, options: QuantizationOptions, step: tf.Variable | None) -> QuantizedDetector:
    from detection_core.families.ssd.quantization import rewrite_ssd

    return rewrite_ssd(detector, options, step)


def _anchor_boxes(message: Any, where: str) -> np.ndarray:
    from detection_core.families.ssd.build import lay_anchors

    del where  # Nothing is refused.
    return lay_anchors(message)


def _fit_anchors(message: Any, where: str, boxes: np.ndarray, *, keep_count: bool) -> AnchorFit:
    from detection_core.families.ssd.anchor_fit import fit_anchors

    return fit_anchors(message, where, boxes, keep_count=keep_count)


FAMILY = Family(
    name="ssd",
    build=_build,
    describe=_describe,
    loss_names={
        "Loss/classification_loss": "class",
        "Loss/localization_loss": "box",
        "Loss/regularization_loss": "reg",
    },
    rules=RULES,
    extractor_types=EXTRACTORS,
    size_problems=size_problems,
    keypoints=keypoints,
    checkpoints=CheckpointSupport(
        names=_checkpoint_names, named_extractors=NAMED_EXTRACTORS, backbone=backbone
    ),
    anchors=AnchorSupport(boxes=_anchor_boxes, fit=_fit_anchors),
    tflite=TFLiteExport(
        problems=tflite_problems,
        function=_tflite_function,
        normalisation=_normalisation,
        decoding=_decoding,
    ),
    quantization=QuantizationSupport(rewrite=_rewrite),
    level_outputs=lambda detector, preprocessed: detector.level_outputs(preprocessed),
    with_network=lambda detector, network: detector.with_network(network),
)
