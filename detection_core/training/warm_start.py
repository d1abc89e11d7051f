"""Start training from the weights of another detector."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Sequence
from typing import Any, Protocol

from detection_core.artifacts import detector as layout
from detection_core.config.label_map_file import load_label_map, parse_label_map
from detection_core.errors import ModelError
from detection_core.parts.layers.layer_names import scoped_name

_logger = logging.getLogger(__name__)
_NAMED = 6


class HasVariables(Protocol):
    """A detector or a network."""

    @property
    def variables(self) -> Sequence[Any]:
        """All variables."""


def check_same_classes(detector_dir: str, label_map_path: str) -> None:
    """Refuse to continue training a detector on data with other classes or another order of classes.

    `copy_matching_weights` alone compares sizes only, so it would copy heads trained for other classes.

    Raises:
        ModelError: when the classes differ.
        ContractError: when the detector was not written by this project.
    """
    own = parse_label_map(layout.read_extra(detector_dir, layout.LABEL_MAP), detector_dir)
    target = load_label_map(label_map_path)
    if own.names == target.names:
        return
    different = [
        f"class {number}: {before or 'none'} deployed, {after or 'none'} in the data"
        for number, (before, after) in enumerate(
            itertools.zip_longest(own.names, target.names, fillvalue=""), start=1
        )
        if before != after
    ]
    raise ModelError(
        f"expected the classes of the deployed detector in the data, found {len(different)} that differ:"
        f" {'; '.join(different[:5])}. If the data are right, run once with train.warm_start set to the"
        " folder of the deployed version, whose layers are taken as far as they fit, or to nothing, and with"
        " the model's num_classes; else name the classes in data.label_map",
        where=detector_dir,
    )


def copy_matching_weights(source: HasVariables, target: HasVariables, where: str = "") -> int:
    """Copy every weight that has the same name and shape in both.

    A detector with other classes provides all but the last layers of its heads.

    Args:
        source: detector or network to copy from.
        target: detector or network to fill.
        where: where the source was read from, for errors.

    Returns:
        The number of weights copied.

    Raises:
        ModelError: when none fits.
    """
    weights = {v.name: v for v in source.variables}
    copied = 0
    left = []
    for variable in target.variables:
        weight = weights.get(variable.name)
        if weight is not None and weight.shape == variable.shape:
            variable.assign(weight.numpy())
            copied += 1
        else:
            left.append(scoped_name(variable))
    if not copied:
        raise ModelError(
            f"expected a detector of the same family to start from, found none of the {len(left)} weights in"
            " it. Warm-start from a model with the same feature extractor and depth.",
            where=where,
        )
    if left:
        more = f" and {len(left) - _NAMED:,} more" if len(left) > _NAMED else ""
        names = ", ".join(left[:_NAMED]) + more
        _logger.info("warm start: %d weights copied, %d are initialised: %s", copied, len(left), names)
    return copied
