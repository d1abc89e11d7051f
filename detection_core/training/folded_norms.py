"""Weights whose batch norms were folded into the convolutions, as in files that were made to be run."""

from __future__ import annotations

import logging
from collections.abc import Collection

import numpy as np
import tf_keras

from detection_core.detectors.base import Detector

_logger = logging.getLogger(__name__)

# Folding leaves gamma 1, mean 0 and variance 1, or 1 less the epsilon.
_TOLERANCE = 0.01
# A trained network may have a trivial norm or two; a folded one has nothing else.
_SHARE = 0.5


def folded_norms(model: Detector, taken: Collection[str]) -> tuple[list[str], int]:
    """Find batch norms that pass their input through but for an offset.

    Args:
        model: with its first weights.
        taken: names of the variables that were taken over; norms that start anew are trivial by nature.

    Returns:
        Names of the layers, and the number of all batch norms that were taken over.
    """
    names, found, count = set(taken), [], 0
    for network in model.networks.values():
        for layer in network.layers:
            is_norm = isinstance(layer, tf_keras.layers.BatchNormalization)
            if not is_norm or layer.moving_variance.name not in names:
                continue
            count += 1
            expected = [(layer.moving_mean, 0.0), (layer.moving_variance, 1.0)]
            expected += [(layer.gamma, 1.0)] if layer.gamma is not None else []
            if all(np.allclose(v.numpy(), value, rtol=0, atol=_TOLERANCE) for v, value in expected):
                found.append(layer.name)
    return found, count


def warn_of_folded_norms(model: Detector, taken: Collection[str], *, frozen: bool) -> bool:
    """Say so where a training starts from weights whose batch norms were folded.

    Args:
        model: with its first weights.
        taken: names of the variables that were taken over.
        frozen: the training normalises with the statistics that it starts with.

    Returns:
        Whether there was something to say.
    """
    found, count = folded_norms(model, taken)
    if not found or len(found) < _SHARE * count:
        return False
    if frozen:
        consequence = (
            "with freeze_batchnorm: true nothing is normalised, and a learning rate that is meant for"
            " normalised layers diverges; set freeze_batchnorm: false, so that statistics are measured, or a"
            " learning rate of a hundredth"
        )
    else:
        consequence = (
            "the first steps measure them anew; do not set freeze_batchnorm, and let their moving averages"
            " follow within the training (batch_norm.decay: 0.97 for a few hundred steps)"
        )
    _logger.warning(
        "%d of the %d batch norms to start from have trivial statistics (gamma 1, mean 0, variance 1), as"
        " they were folded into the convolutions: %s",
        len(found),
        count,
        consequence,
    )
    return True
