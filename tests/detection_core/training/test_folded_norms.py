"""Batch norms that do nothing are noticed, and others are not."""

import numpy as np
import tf_keras

from detection_core.training.folded_norms import folded_norms, warn_of_folded_norms


class _Detector:
    def __init__(self, **statistics):
        x = inputs = tf_keras.Input((4, 4, 3))
        for number in range(4):
            x = tf_keras.layers.BatchNormalization(name=f"norm_{number}")(x)
        self.network = tf_keras.Model(inputs, x)
        self.networks = {"network": self.network}
        for layer in self.network.layers[1:]:
            for name, value in statistics.items():
                variable = getattr(layer, name)
                variable.assign(np.full(variable.shape, value, np.float32))

    @property
    def names(self):
        return [v.name for v in self.network.variables]


def test_folded_norms_are_found_and_others_are_fine():
    model = _Detector()
    assert folded_norms(model, []) == ([], 0)
    assert not warn_of_folded_norms(model, [], frozen=True)
    model = _Detector(gamma=1, moving_mean=0, moving_variance=0.999, beta=0.7)
    assert folded_norms(model, model.names) == ([f"norm_{n}" for n in range(4)], 4)
    assert warn_of_folded_norms(model, model.names, frozen=True)
    model = _Detector(gamma=0.9, moving_mean=0.3, moving_variance=2.0)
    assert folded_norms(model, model.names) == ([], 4)
    first = model.network.get_layer("norm_0")
    for variable, value in ((first.gamma, 1.0), (first.moving_mean, 0.0), (first.moving_variance, 1.0)):
        variable.assign(np.full(3, value, np.float32))
    assert folded_norms(model, model.names) == (["norm_0"], 4)
    assert not warn_of_folded_norms(model, model.names, frozen=True)
