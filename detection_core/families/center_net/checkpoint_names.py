"""Names of CenterNet's variables in the Object Detection API's checkpoints."""

import tensorflow as tf

from detection_core.detectors.checkpoint_names import (
    CheckpointNames,
    FillableVariables,
    FineTuneOptions,
    Naming,
    object_kinds,
    rename_paths,
)
from detection_core.errors import ModelError
from detection_core.families.center_net.model import CenterNetModel
from detection_core.families.center_net.network import CLASSIFICATION_BACKBONE, EXTRACTOR, HEADS, NETWORK
from detection_core.parts.layers.layer_names import in_backbone, parse_variable_name

EXTRACTOR_PATH = f"model/{EXTRACTOR}/"
_BACKBONE_PATH, _NETWORK_PATH = f"model/{CLASSIFICATION_BACKBONE}/", f"model/{NETWORK}/"
_CLASSIFIER_PATH = "feature_extractor/"
# Start of the paths of a backbone that is a layer of the whole network.
_NESTED = f"{_NETWORK_PATH}layer_with_weights-0/layer_with_weights-"
# A separable convolution is one object there and two layers here.
_POINTWISE = "_pointwise"


def object_paths(model: CenterNetModel) -> dict[str, tf.Variable]:
    """Return object path -> variable, for every variable of a detector's original network."""
    found: dict[str, tf.Variable] = {}
    for layer in model.network.layers:
        path = model.parts.paths.get(layer.name, "")
        halved = layer.name.endswith(_POINTWISE) and not in_backbone(layer.name)
        for variable in layer.weights:
            weight = parse_variable_name(variable).weight
            leaf = "pointwise_kernel" if halved and weight == "kernel" else weight
            found[f"model/{path}/{leaf}"] = variable
    return found


def _classification(model: CenterNetModel, options: FineTuneOptions) -> FillableVariables:
    """Return the variables of the backbone; an hourglass has none of a classifier's.

    A MobileNetV2 without a pyramid has its neck among them, as in the Object Detection API.
    """
    paths = object_paths(model)
    own = _NETWORK_PATH if any(path.startswith(_NESTED) for path in paths) else _BACKBONE_PATH

    def path_in(path: str) -> str | None:
        return path.replace(own, _CLASSIFIER_PATH, 1) if path.startswith(own) else None

    found = rename_paths(paths, path_in)
    if not found:
        raise ModelError(
            "expected detection or full, as an hourglass starts from a detector's checkpoint, found"
            " classification; change it",
            where="train_config.fine_tune_checkpoint_type",
        )
    return found


def checkpoint_names() -> CheckpointNames:
    """Return the names of CenterNet's variables in checkpoints."""
    return CheckpointNames(
        object_based=Naming(
            kinds={"classification": _classification, **object_kinds(object_paths, EXTRACTOR_PATH)},
            detector=(EXTRACTOR_PATH,),
            classifier=(_CLASSIFIER_PATH,),
            heads=(f"model/{HEADS}/",),
            model=("model/", _CLASSIFIER_PATH),
        ),
        # TensorFlow 1 has no CenterNet.
        name_based=Naming(
            kinds={"detection": lambda model, options: []}, detector=(), classifier=(), heads=()
        ),
    )
