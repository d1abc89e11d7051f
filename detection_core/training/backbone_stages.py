"""The depth of a backbone's layers, by which their learning rates differ and the first of them are frozen."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import tensorflow as tf
import tf_keras

from detection_core.parts.layers.layer_names import in_backbone


def backbone_stages(networks: Iterable[tf_keras.Model]) -> Mapping[str, int]:
    """Return the stage of each variable of a backbone, by the variable's name.

    A layer is of stage s when what it gives has a stride of 2^s, as a stem has 1 and what a pyramid calls
    C5 has 5. Layers without rows and columns, as those of squeeze-and-excitation, are of the stage before.

    Args:
        networks: flat functional models on images.
    """
    stages: dict[str, int] = {}
    for network in networks:
        rows, stage = network.input_shape[1], 1
        for layer in network.layers:
            if not in_backbone(layer.name):
                continue
            shape = layer.get_output_shape_at(0)
            if len(shape) == 4 and shape[1] > 1:
                stage = max(1, round(math.log2(rows / shape[1])))
            stages.update({variable.name: stage for variable in layer.variables})
    return stages


def rate_factors(
    variables: Iterable[tf.Variable], stages: Mapping[str, int], decay: float
) -> tuple[float, ...]:
    """Return what each variable's learning rate is multiplied by.

    The deepest stage has the factor `decay`, each one before it `decay` times that of the next; what is not
    of the backbone has 1. Compare Clark et al., "ELECTRA", 2020, https://arxiv.org/abs/2003.10555, and, for
    stages of convolutional networks, Liu et al., "A ConvNet for the 2020s", 2022,
    https://arxiv.org/abs/2201.03545.

    Args:
        variables: those that are trained.
        stages: of the backbone's, see `backbone_stages`.
        decay: above 0, up to 1.
    """
    deepest = max(stages.values(), default=0)
    return tuple(
        decay ** (deepest + 1 - stages[variable.name]) if variable.name in stages else 1.0
        for variable in variables
    )


@contextlib.contextmanager
def scaled_updates(variables: Sequence[tf.Variable], factors: Sequence[float]) -> Iterator[None]:
    """Scale what a `with` block adds to variables, in a replica's context.

    What every optimizer here adds is a multiple of the learning rate, and so is what its momentum keeps, so
    that this gives what a rate of its own for each variable would.

    Args:
        variables: those that are updated.
        factors: of each; empty: 1.
    """
    scaled = [(v, tf.identity(v), f) for v, f in zip(variables, factors, strict=bool(factors)) if f != 1.0]
    yield
    if not scaled:
        return

    def scale(strategy: tf.distribute.Strategy, before: Sequence[tf.Tensor]) -> None:
        for (variable, _, factor), value in zip(scaled, before, strict=True):
            strategy.extended.update(variable, _kept_part(factor), args=(value,))

    tf.distribute.get_replica_context().merge_call(scale, args=([value for _, value, _ in scaled],))


def _kept_part(factor: float) -> Callable[[tf.Variable, tf.Tensor], tf.Tensor]:
    return lambda variable, value: variable.assign(value + factor * (variable - value))
