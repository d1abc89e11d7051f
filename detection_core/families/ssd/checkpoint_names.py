"""Names of our networks' variables in the Object Detection API's checkpoints."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping

import tensorflow as tf
import tf_keras

from detection_core.detectors.checkpoint_names import (
    CheckpointNames,
    FillableVariables,
    FineTuneOptions,
    Naming,
    object_kinds,
    pyramid_path,
    rename_paths,
    rewritten_layer,
    top_level,
)
from detection_core.families.ssd.model import SsdModel
from detection_core.families.ssd.scoped_names import FAMILIES, FEATURE_EXTRACTOR, scoped_variables
from detection_core.parts.layers.layer_names import (
    LayerName,
    in_backbone,
    parse_layer_name,
    parse_variable_name,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class NetworkNames:
    """Names of a network's layers, for the rules.

    Attributes:
        all: names of all its layers.
        weighted: names of the layers that have variables, in network order.
        parsed: the parsed names of all layers that belong to a part.
    """

    all: frozenset[str]
    weighted: tuple[str, ...]
    parsed: tuple[LayerName, ...]

    def slot_after_padding(self, name: str) -> int:
        """Return the first free slot in a layer list, which explicit padding may shift."""
        return int(f"{name}_pad" in self.all or f"{name}_depthwise_pad" in self.all)


# (layer's name, names of the network) -> object path below the model
PathRule = Callable[[LayerName, NetworkNames], str]
# (unit, role) of a `LayerName` -> rule
PathRules = Mapping[tuple[str, str], PathRule]


def names_of(network: tf_keras.Model) -> NetworkNames:
    """Collect the names of a network's layers."""
    parsed = (parse_layer_name(layer.name) for layer in network.layers)
    return NetworkNames(
        all=frozenset(layer.name for layer in network.layers),
        weighted=tuple(layer.name for layer in network.layers if layer.weights),
        parsed=tuple(name for name in parsed if name is not None),
    )


def for_roles(rule: PathRule, units: Iterable[str], roles: Iterable[str] = ("",)) -> PathRules:
    """Map each pair of unit and role to a rule."""
    return {(unit, role): rule for unit in units for role in roles}


CLASSIFICATION_BACKBONE = "_feature_extractor/classification_backbone"
# A detector's backbone is a separate model of only the used EfficientNet layers.
EFFICIENTNET = "_feature_extractor/_efficientnet"

# Objects in a detector's checkpoint that a classifier's checkpoint has under "feature_extractor".
CLASSIFICATION_PREFIXES = (CLASSIFICATION_BACKBONE, EFFICIENTNET)


def backbone_path(name: str, names: NetworkNames) -> str:
    """Return the path of a backbone layer, which the checkpoint numbers in network order."""
    number = [other for other in names.weighted if in_backbone(other)].index(name)
    folder = EFFICIENTNET if "backbone_block_0_0_excite" in names.all else CLASSIFICATION_BACKBONE
    return f"{folder}/layer_with_weights-{number}"


_FPN = "_feature_extractor/_fpn_features_generator"
_COARSE = "_feature_extractor/_coarse_feature_layers"
_BIFPN = "_feature_extractor/_bifpn_stage"
_EXTRA = "_feature_extractor/feature_map_generator/convolutions"
# The extractor of MobileNetV1 uses a different name for the same object.
_EXTRA_OF_MOBILENET_V1 = "_feature_extractor/_feature_map_generator/convolutions"


def _pyramid(name: LayerName, names: NetworkNames) -> str:
    padding = names.slot_after_padding(f"{name.part}_{name.indices[0]}")
    return pyramid_path(name, top_level(names.parsed), _FPN, _COARSE, padding)


# Slots in an extra layer's list, without explicit padding.
_EXTRA_SLOTS = {
    "shrink": 0,
    "shrink_bn": 1,
    "halve": 3,
    "halve_bn": 4,
    "halve_depthwise": 3,
    "halve_depthwise_bn": 4,
    "halve_pointwise": 6,
    "halve_pointwise_bn": 7,
}


def _extra(name: LayerName, names: NetworkNames) -> str:
    index = name.indices[0]
    slot = _EXTRA_SLOTS[name.role]
    if slot >= _EXTRA_SLOTS["halve"]:
        slot += names.slot_after_padding(f"extra_{index}_halve")
    folder = _EXTRA_OF_MOBILENET_V1 if "backbone_separable_1_pointwise" in names.all else _EXTRA
    return f"{folder}/{index}/{slot}"


NECK_RULES: PathRules = {
    **for_roles(_pyramid, ["fpn_lateral_N"]),
    **for_roles(_pyramid, ["fpn_smooth_N", "fpn_coarse_N"], ("", "depthwise", "pointwise", "bn")),
    **for_roles(_extra, ["extra_N"], _EXTRA_SLOTS),
    **for_roles(
        lambda name, names: f"{_BIFPN}/node_input_blocks/{name.indices[0]}/{name.number}/1/{int(name.norm)}",
        ["bifpn_N_input_N"],
        ("", "bn"),
    ),
    **for_roles(lambda name, names: f"{_BIFPN}/node_combine_op/{name.indices[0]}", ["bifpn_N"], ("combine",)),
    # An activation, a separable convolution and its normalisation in a list.
    **for_roles(
        lambda name, names: f"{_BIFPN}/node_post_combine_block/{name.indices[0]}/{2 if name.norm else 1}",
        ["bifpn_N"],
        ("depthwise", "pointwise", "bn"),
    ),
}


_PREDICTOR = "_box_predictor"
_HEADS = f"{_PREDICTOR}/_prediction_heads"
_BOXES = "box_encodings"
_CLASSES = "class_predictions_with_background"
_TOWER_SCOPES = {
    "tower": "PredictionTower",
    "box_tower": "BoxPredictionTower",
    "class_tower": "ClassPredictionTower",
}
_TOWER_HEADS = {"tower": _BOXES, "box_tower": _BOXES, "class_tower": _CLASSES}


def _shared_nets(name: LayerName, names: NetworkNames) -> str:
    level, index = name.indices
    return f"{_PREDICTOR}/_shared_nets/{level}/{3 * index + name.norm}"


_LEVEL_HEAD_SLOTS = {"depthwise": 0, "depthwise_bn": 1, "": 3}


def _level_head(name: LayerName, names: NetworkNames) -> str:
    """A predictor of one feature map: [dropout], [depthwise, normalisation, activation], convolution."""
    level = name.indices[0]
    base = f"{name.part}_{level}"
    slot = 1 if f"{base}_dropout" in names.all else 0
    if f"{base}_depthwise" in names.all:
        slot += _LEVEL_HEAD_SLOTS[name.role]
    folder = (
        f"{_HEADS}/{_BOXES}/{level}/_box_encoder_layers"
        if name.part == "box_head"
        else f"{_HEADS}/{_CLASSES}/{level}/_class_predictor_layers"
    )
    return f"{folder}/{slot}"


def _shared_head(name: LayerName, names: NetworkNames) -> str:
    slot = 1 if name.part == "class_head" and "class_head_dropout_0" in names.all else 0
    folder = (
        f"{_PREDICTOR}/_box_prediction_head/_box_encoder_layers"
        if name.part == "box_head"
        else f"{_HEADS}/{_CLASSES}/_class_predictor_layers"
    )
    return f"{folder}/{slot}"


def _tower(name: LayerName, names: NetworkNames) -> str:
    return f"{_PREDICTOR}/_head_scope_conv_layers/{_TOWER_SCOPES[name.part]}/{name.indices[0]}"


def _tower_norm(name: LayerName, names: NetworkNames) -> str:
    folder = f"{_PREDICTOR}/_base_tower_layers_for_heads/{_TOWER_HEADS[name.part]}/{name.level}"
    return f"{folder}/{3 * name.indices[0] + 1}"


def _projection(name: LayerName, names: NetworkNames) -> str:
    return f"{_PREDICTOR}/_additional_projection_layers/{name.indices[0]}/{int(name.norm)}"


_HALVES = ("", "depthwise", "pointwise")
HEAD_RULES: PathRules = {
    **for_roles(_shared_nets, ["head_shared_N_N"], ("", "bn")),
    **for_roles(_level_head, ["box_head_N", "class_head_N"], _LEVEL_HEAD_SLOTS),
    **for_roles(_shared_head, ["box_head", "class_head"], _HALVES),
    **for_roles(_tower, [f"{tower}_N" for tower in _TOWER_SCOPES], _HALVES),
    **for_roles(_tower_norm, [f"{tower}_N_level_N" for tower in _TOWER_SCOPES], ("bn",)),
    **for_roles(_projection, ["head_projection_N"], ("", "bn")),
}


RULES: PathRules = {**NECK_RULES, **HEAD_RULES}


def _object_path(layer: str, names: NetworkNames) -> str:
    if in_backbone(layer):
        return backbone_path(layer, names)
    name = parse_layer_name(layer)
    rule = RULES.get((name.unit, name.role)) if name else None
    if name is None or rule is None:
        raise rewritten_layer(layer)
    return rule(name, names)


def object_paths(network: tf_keras.Model) -> dict[str, tf.Variable]:
    """Name every variable of a network by its path in an object-based checkpoint.

    The network must not be rewritten.

    Returns:
        Path from "model/" on, without the suffix of its attribute, -> variable.

    Raises:
        ModelError: when no rule names one of the network's layers.
    """
    names = names_of(network)
    paths: dict[str, tf.Variable] = {}
    for layer in network.layers:
        for variable in layer.weights:
            name = None if in_backbone(layer.name) else parse_layer_name(layer.name)
            leaf = parse_variable_name(variable).weight
            if name and name.piece == "pointwise" and leaf == "kernel":
                leaf = "pointwise_kernel"  # a checkpoint stores a separable convolution as one layer
            paths[f"model/{_object_path(layer.name, names)}/{leaf}"] = variable
    return paths


EXTRACTOR_PATH = "model/_feature_extractor/"
PREDICTOR_PATH = "model/_box_predictor/"


def _classification_path(path: str) -> str | None:
    """Return the path in a classifier's checkpoint of an object in a detector's backbone."""
    for prefix in CLASSIFICATION_PREFIXES:
        if path.startswith(f"model/{prefix}/"):
            return path.replace(f"model/{prefix}/", "feature_extractor/", 1)
    return None


def _named_classification(model: SsdModel, options: FineTuneOptions) -> FillableVariables:
    found = scoped_variables(model.network, options.extractor)
    return [(v.variable, [v.name.removeprefix(FEATURE_EXTRACTOR)]) for v in found if v.backbone]


def _named_detection(model: SsdModel, options: FineTuneOptions) -> FillableVariables:
    found = scoped_variables(model.network, options.extractor)
    return [(v.variable, [v.name]) for v in found if options.heads or v.name.startswith(FEATURE_EXTRACTOR)]


def checkpoint_names() -> CheckpointNames:
    """Return the names of SSD's variables in checkpoints."""
    return CheckpointNames(
        object_based=Naming(
            kinds={
                "classification": lambda model, options: rename_paths(
                    object_paths(model.network), _classification_path
                ),
                **object_kinds(lambda model: object_paths(model.network), EXTRACTOR_PATH),
            },
            detector=(EXTRACTOR_PATH,),
            classifier=("feature_extractor/",),
            heads=(PREDICTOR_PATH,),
            model=("model/", "feature_extractor/"),
        ),
        name_based=Naming(
            kinds={"classification": _named_classification, "detection": _named_detection},
            detector=(FEATURE_EXTRACTOR,),
            classifier=tuple(f"{family.scope}/" for family in FAMILIES.values()),
            heads=("Predictor",),
        ),
    )
