"""Object paths of the backbones' layers."""

from __future__ import annotations

from detection_core.families.ssd.checkpoint_names.object_paths import NetworkNames, ObjectPaths
from detection_core.parts.layers.layer_names import in_backbone

CLASSIFICATION_BACKBONE = "_feature_extractor/classification_backbone"
# The part of an EfficientNet that a detector uses is a separate model beside the whole.
EFFICIENTNET = "_feature_extractor/_efficientnet"

# Objects of a detector's checkpoint that a classifier's has under "feature_extractor".
CLASSIFICATION_PREFIXES = (CLASSIFICATION_BACKBONE, EFFICIENTNET)


def backbone_paths(name: str, names: NetworkNames) -> ObjectPaths:
    """Find a layer of the backbone's own model, which the checkpoint numbers in network order."""
    number = [other for other in names.weighted if in_backbone(other)].index(name)
    folder = EFFICIENTNET if "backbone_block_0_0_excite" in names.all else CLASSIFICATION_BACKBONE
    return ObjectPaths(paths=(f"{folder}/layer_with_weights-{number}",))
