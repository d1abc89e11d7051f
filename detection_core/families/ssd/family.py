"""The record of the family; see `detectors.family`."""

from __future__ import annotations

from detection_core.detectors.family import (
    AnchorSupport,
    CheckpointSupport,
    Family,
    QuantizationSupport,
    TFLiteExport,
    late,
)
from detection_core.families.ssd.check import RULES, keypoints, size_problems, tflite_problems
from detection_core.families.ssd.extractors import EXTRACTORS, NAMED_EXTRACTORS, backbone

_HERE = "detection_core.families.ssd"

FAMILY = Family(
    name="ssd",
    build=late(f"{_HERE}.build:build_ssd"),
    describe=late(f"{_HERE}.description:describe_ssd"),
    loss_names={
        "Loss/classification_loss": "class",
        "Loss/localization_loss": "box",
        "Loss/regularization_loss": "reg",
    },
    extractor_types=EXTRACTORS,
    keypoints=keypoints,
    rules=RULES,
    size_problems=size_problems,
    checkpoints=CheckpointSupport(
        names=late(f"{_HERE}.checkpoint_names.kinds:checkpoint_names"),
        named_extractors=NAMED_EXTRACTORS,
        backbone=backbone,
    ),
    anchors=AnchorSupport(
        boxes=late(f"{_HERE}.build:anchor_boxes"),
        fit=late(f"{_HERE}.anchor_fit:fit_anchors"),
    ),
    tflite=TFLiteExport(
        problems=tflite_problems,
        function=late(f"{_HERE}.tflite:export_function"),
        normalisation=late(f"{_HERE}.tflite:input_normalisation"),
        decoding=late(f"{_HERE}.tflite:box_decoding"),
    ),
    quantization=QuantizationSupport(rewrite=late(f"{_HERE}.quantization:rewrite_ssd")),
    level_outputs=lambda detector, preprocessed: detector.level_outputs(preprocessed),
    with_network=lambda detector, network: detector.with_network(network),
)
