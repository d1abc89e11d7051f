"""Networks whose layers' keys the tests of this folder ask for."""

import tf_keras

from detection_core.detectors.parts.layers.layer_hyperparams import BatchNormOptions, LayerHyperparams
from detection_core.detectors.parts.layers.network_layers import NetworkLayers
from detection_core.detectors.ssd.checkpoint_names.object_keys import object_keys
from detection_core.training.object_checkpoint import VARIABLE_SUFFIX

WITH_BATCH_NORM = LayerHyperparams(batch_norm=BatchNormOptions(scale=True), activation="relu6")


def maker(**settings) -> NetworkLayers:
    return NetworkLayers(hyperparams=WITH_BATCH_NORM, **settings)


def keys_of(inputs, outputs) -> set[str]:
    """Object paths below the model, without the names of variables."""
    network = tf_keras.Model(inputs, outputs)
    paths = (key.removesuffix(VARIABLE_SUFFIX).removeprefix("model/") for key in object_keys(network))
    return {path.rsplit("/", 1)[0] for path in paths}
