"""The record of the family; see `detectors.family`."""

from detection_core.detectors import family
from detection_core.families.center_net.check import RULES, keypoints, size_problems, tflite_problems
from detection_core.families.center_net.extractors import EXTRACTORS

FLOAT_STAGES = {
    "score_conversion": "after the network: runs once on its heatmaps, in float32",
    "peaks": "after the network: compares and sorts, runs in float32",
}
"""Stages after the network, with the reason why they stay in float."""

FAMILY = family.Family(
    name="center_net",
    build=family.late("detection_core.families.center_net.build:build_center_net"),
    describe=family.late("detection_core.families.center_net.build:describe_center_net"),
    loss_names={"Loss/object_center": "center", "Loss/box/scale": "size", "Loss/box/offset": "offset"},
    extractor_types=EXTRACTORS,
    keypoints=keypoints,
    rules=RULES,
    size_problems=size_problems,
    checkpoints=family.CheckpointSupport(
        names=family.late("detection_core.families.center_net.checkpoint_names:checkpoint_names")
    ),
    tflite=family.TFLiteExport(
        problems=tflite_problems,
        function=family.late("detection_core.families.center_net.tflite:export_function"),
        normalisation=family.late("detection_core.families.center_net.tflite:input_normalisation"),
    ),
    quantization=family.QuantizationSupport(
        rewrite=family.late("detection_core.quantization.rewriting:rewrite", float_stages=FLOAT_STAGES)
    ),
    with_network=lambda detector, network: detector.with_network(network),
)
