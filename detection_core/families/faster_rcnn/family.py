"""The record of the family; see `detectors.family`."""

from detection_core.detectors.family import AnchorSupport, CheckpointSupport, Family, late
from detection_core.families.faster_rcnn.check import RULES, finds_masks, size_problems
from detection_core.families.faster_rcnn.extractors import EXTRACTORS, NAMED_EXTRACTORS

FAMILY = Family(
    name="faster_rcnn",
    build=late("detection_core.families.faster_rcnn.build:build_faster_rcnn"),
    describe=late("detection_core.families.faster_rcnn.build:describe_faster_rcnn"),
    loss_names={
        "Loss/RPNLoss/localization_loss": "rpn box",
        "Loss/RPNLoss/objectness_loss": "rpn class",
        "Loss/BoxClassifierLoss/localization_loss": "box",
        "Loss/BoxClassifierLoss/classification_loss": "class",
        "Loss/BoxClassifierLoss/mask_loss": "mask",
        "Loss/regularization_loss": "reg",
    },
    extractor_types=EXTRACTORS,
    rules=RULES,
    size_problems=size_problems,
    masks=finds_masks,
    checkpoints=CheckpointSupport(
        names=late("detection_core.families.faster_rcnn.checkpoint_names:checkpoint_names"),
        named_extractors=NAMED_EXTRACTORS,
        extractors=EXTRACTORS,
    ),
    anchors=AnchorSupport(
        boxes=late("detection_core.families.faster_rcnn.build:anchor_boxes"),
        fit=late("detection_core.families.faster_rcnn.anchors:fit_anchors"),
    ),
)
