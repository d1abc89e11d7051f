"""Starting from the weights of another detector."""

from __future__ import annotations

import logging
from typing import Any

from detection_core.errors import ModelError

_logger = logging.getLogger(__name__)


def copy_matching_weights(source: Any, target: Any, where: str = "") -> int:
    """Copy every weight that has the same name and shape in both networks.

    A detector with other classes gives all but the last layers of its heads.

    Args:
        source: `tf_keras.Model` to copy from.
        target: `tf_keras.Model` to fill.
        where: what the source was read from, for errors.

    Returns:
        How many weights were copied.

    Raises:
        ModelError: when none fits.
    """
    weights = {v.name: v for v in source.variables}
    copied = 0
    left = []
    for variable in target.variables:
        found = weights.get(variable.name)
        if found is not None and found.shape == variable.shape:
            variable.assign(found.numpy())
            copied += 1
        else:
            left.append(variable.name.split(":")[0])
    if not copied:
        raise ModelError(
            f"expected a detector of the same family to start from, found none of the {len(left)} weights in"
            " it. Warm-start from a model with the same feature extractor and depth.",
            where=where,
        )
    if left:
        _logger.info(
            "warm start: %d weights copied, %d start anew: %s", copied, len(left), ", ".join(left[:6])
        )
    return copied
