"""Object paths of the backbones' layers."""

from __future__ import annotations

from detection_core.families.ssd.checkpoint_names.object_paths import NetworkNames, ObjectPaths
from detection_core.parts.layers.layer_names import in_backbone

CLASSIFICATION_BACKBONE = "_feature_extractor/classification_backbone"
# A detector's backbone is a separate model of only the used EfficientNet layers.
EFFICIENTNET = "_feature_extractor/_efficientnet"

# Objects in a detector's checkpoint that a classifier's checkpoint has under "feature_extractor".
CLASSIFICATION_PREFIXES = (CLASSIFICATION_BACKBONE, EFFICIENTNET)


def backbone_paths(name: str, names: NetworkNames) -> ObjectPaths:
    """Return the paths of a backbone layer, which the checkpoint numbers in network order."""
    number = [other for other in names.weighted if in_backbone(other)].index(name)
    folder = EFFICIENTNET if "backbone_block_0_0_excite" in names.all else CLASSIFICATION_BACKBONE
    return ObjectPaths(paths=(f"{folder}/layer_with_weights-{number}",))
