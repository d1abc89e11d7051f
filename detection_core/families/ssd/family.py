"""The record of the family; see `detectors.family`."""

from detection_core.detectors import family
from detection_core.detectors.quantization import ONE_STAGE_IN_FLOAT
from detection_core.families.ssd.check import RULES, keypoints, size_problems, tflite_problems
from detection_core.families.ssd.extractors import EXTRACTORS, NAMED_EXTRACTORS

FAMILY = family.Family(
    name="ssd",
    build=family.late("detection_core.families.ssd.build:build_ssd"),
    describe=family.late("detection_core.families.ssd.build:describe_ssd"),
    loss_names={
        "Loss/classification_loss": "class",
        "Loss/localization_loss": "box",
        "Loss/regularization_loss": "reg",
    },
    extractor_types=EXTRACTORS,
    keypoints=keypoints,
    rules=RULES,
    size_problems=size_problems,
    checkpoints=family.CheckpointSupport(
        names=family.late("detection_core.families.ssd.checkpoint_names:checkpoint_names"),
        named_extractors=NAMED_EXTRACTORS,
        extractors=EXTRACTORS,
    ),
    anchors=family.AnchorSupport(
        boxes=family.late("detection_core.families.ssd.build:anchor_boxes"),
        fit=family.late("detection_core.families.ssd.anchors:fit_anchors"),
    ),
    tflite=family.TFLiteExport(
        problems=tflite_problems,
        function=family.late("detection_core.families.ssd.tflite:export_function"),
        normalisation=family.late("detection_core.exporters.tflite_forms:input_normalisation"),
        decoding=family.late("detection_core.families.ssd.tflite:box_decoding"),
    ),
    quantization=family.QuantizationSupport(
        rewrite=family.late("detection_core.quantization.rewriting:rewrite", float_stages=ONE_STAGE_IN_FLOAT)
    ),
    level_outputs=lambda detector, preprocessed: detector.level_outputs(preprocessed),
    with_network=lambda detector, network: detector.with_network(network),
)
