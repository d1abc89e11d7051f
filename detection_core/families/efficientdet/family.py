"""The record of the family; see `detectors.family`."""

from detection_core.detectors import family
from detection_core.detectors.quantization import ONE_STAGE_IN_FLOAT
from detection_core.families.efficientdet.check import RULES, size_problems, tflite_problems
from detection_core.families.efficientdet.settings import all_values, input_size

_describe = family.late("detection_core.families.efficientdet.build:describe_efficientdet")

FAMILY = family.Family(
    name="efficientdet",
    build=family.late("detection_core.families.efficientdet.build:build_efficientdet"),
    describe=lambda message, detector: _describe(detector),
    loss_names={
        "Loss/classification_loss": "class",
        "Loss/localization_loss": "box",
        "Loss/iou_loss": "iou",
        "Loss/segmentation_loss": "seg",
        "Loss/regularization_loss": "reg",
    },
    input_size=input_size,
    other_sizes=True,
    settings=all_values,
    rules=RULES,
    size_problems=size_problems,
    checkpoints=family.CheckpointSupport(
        names=family.late("detection_core.families.efficientdet.checkpoint_names:checkpoint_names")
    ),
    anchors=family.AnchorSupport(
        boxes=family.late("detection_core.families.efficientdet.anchors:anchor_boxes"),
        fit=family.late("detection_core.families.efficientdet.anchors:fit_anchors"),
    ),
    tflite=family.TFLiteExport(
        problems=tflite_problems,
        function=family.late("detection_core.families.efficientdet.tflite:export_function"),
        normalisation=family.late("detection_core.exporters.tflite_forms:input_normalisation"),
        decoding=family.late("detection_core.families.efficientdet.tflite:box_decoding"),
    ),
    quantization=family.QuantizationSupport(
        rewrite=family.late("detection_core.quantization.rewriting:rewrite", float_stages=ONE_STAGE_IN_FLOAT)
    ),
    level_outputs=lambda detector, preprocessed: detector.level_outputs(preprocessed),
    with_network=lambda detector, network: detector.with_network(network),
)
