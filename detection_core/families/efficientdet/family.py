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
from detection_core.families.efficientdet.check import RULES, size_problems, tflite_problems
from detection_core.families.efficientdet.settings import all_values, input_size

if TYPE_CHECKING:
    import numpy as np
    import tensorflow as tf

    from detection_core.artifacts.tflite_metadata import BoxDecoding
    from detection_core.detectors.base import Detector
    from detection_core.detectors.checkpoint_names import CheckpointNames
    from detection_core.detectors.quantization import QuantizationOptions, QuantizedDetector


def _build(message: Any, where: str, seed: int | None) -> Detector:
    from detection_core.families.efficientdet.build import build_efficientdet

    return build_efficientdet(message, where, seed)


def _describe(message: Any, detector: Any) -> FamilyDescription:
    from detection_core.families.efficientdet.description import describe_efficientdet

    del message  # Its defaults are the named model's.
    return describe_efficientdet(detector)


def _checkpoint_names() -> CheckpointNames:
    from detection_core.families.efficientdet.checkpoint_names import EFFICIENTDET_NAMES

    return EFFICIENTDET_NAMES


def _tflite_function(detector: Any, config: Any, options: TFLiteOutputOptions, integer: bool) -> Any:
    from detection_core.families.efficientdet.tflite import post_process_options, tflite_function

    attributes = post_process_options(config.model.efficientdet, options)
    return tflite_function(detector, attributes, integer=integer, form=options.form)


def _decoding(detector: Any, config: Any, options: TFLiteOutputOptions) -> BoxDecoding:
    from detection_core.families.efficientdet.tflite import box_decoding, post_process_options

    return box_decoding(detector, post_process_options(config.model.efficientdet, options))


def _normalisation(detector: Any) -> Normalisation:
    from detection_core.exporters.tflite_input import file_normalisation
    from detection_core.exporters.tflite_post_process import normalisation_of

    return file_normalisation(normalisation_of(detector.preprocess))


def _rewrite(detector: Any, options: QuantizationOptions, step: tf.Variable | None) -> QuantizedDetector:
    from detection_core.families.efficientdet.quantization import rewrite_efficientdet

    return rewrite_efficientdet(detector, options, step)


def _anchor_boxes(message: Any, where: str) -> np.ndarray:
    from detection_core.families.efficientdet.anchors import normalized_anchors
    from detection_core.families.efficientdet.settings import settings_of

    del where  # Nothing is refused.
    return normalized_anchors(settings_of(message))


def _fit_anchors(message: Any, where: str, boxes: np.ndarray, *, keep_count: bool) -> AnchorFit:
    from detection_core.families.efficientdet.anchor_fit import fit_anchors

    return fit_anchors(message, where, boxes, keep_count=keep_count)


FAMILY = Family(
    name="efficientdet",
    build=_build,
    describe=_describe,
    loss_names={
        "Loss/classification_loss": "class",
        "Loss/localization_loss": "box",
        "Loss/iou_loss": "iou",
        "Loss/segmentation_loss": "seg",
        "Loss/regularization_loss": "reg",
    },
    rules=RULES,
    settings=all_values,
    input_size=input_size,
    other_sizes=True,
    size_problems=size_problems,
    checkpoints=CheckpointSupport(names=_checkpoint_names),
    tflite=TFLiteExport(
        problems=tflite_problems,
        function=_tflite_function,
        normalisation=_normalisation,
        decoding=_decoding,
    ),
    quantization=QuantizationSupport(rewrite=_rewrite),
    level_outputs=lambda detector, preprocessed: detector.level_outputs(preprocessed),
    with_network=lambda detector, network: detector.with_network(network),
    anchors=AnchorSupport(boxes=_anchor_boxes, fit=_fit_anchors),
)
