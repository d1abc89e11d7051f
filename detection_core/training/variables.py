"""Select the variables to train, and the learning rate of each backbone stage."""

import contextlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import tensorflow as tf
import tf_keras

from detection_core.errors import ConfigError
from detection_core.parts.layers.layer_names import in_backbone, scoped_name
from detection_core.training.loop_options import TrainOptions


def backbone_stages(networks: Iterable[tf_keras.Model]) -> Mapping[str, int]:
    """Return the stage of each variable of a backbone, by the variable's name.

    A layer is of stage s when its output has a stride of 2^s. A stem is stage 1, and C5 of a pyramid is
    stage 5. Layers without spatial dimensions, as in squeeze-and-excitation, belong to the stage before.

    The networks are flat functional models on images.
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
    """Return the factor of each variable's learning rate.

    The deepest stage has the factor `decay`, each earlier one `decay` times that of the next. Variables
    outside the backbone have 1. Compare Clark et al., "ELECTRA", 2020, https://arxiv.org/abs/2003.10555. For
    stages of convolutional networks see Liu et al., "A ConvNet for the 2020s", 2022,
    https://arxiv.org/abs/2201.03545.

    Args:
        variables: the variables to train.
        stages: from `backbone_stages`.
        decay: above 0, up to 1.
    """
    deepest = max(stages.values(), default=0)
    return tuple(
        decay ** (deepest + 1 - stages[variable.name]) if variable.name in stages else 1.0
        for variable in variables
    )


@contextlib.contextmanager
def scaled_updates(variables: Sequence[tf.Variable], factors: Sequence[float]) -> Iterator[None]:
    """Scale the changes of variables in a `with` block, in a replica's context.

    Every optimizer here adds a multiple of the learning rate, and its momentum is one as well. So the result
    equals that of a separate learning rate for each variable.

    `factors` has one factor per variable; empty: 1.
    """
    scaled = [(v, tf.identity(v), f) for v, f in zip(variables, factors, strict=bool(factors)) if f != 1.0]
    yield
    if not scaled:
        return

    def scale(strategy: tf.distribute.Strategy, before: Sequence[tf.Tensor]) -> None:
        for (variable, _, factor), value in zip(scaled, before, strict=True):
            strategy.extended.update(
                variable, lambda v, old, part: v.assign(old + part * (v - old)), args=(value, factor)
            )

    tf.distribute.get_replica_context().merge_call(scale, args=([value for _, value, _ in scaled],))


def trained_variables(
    variables: Sequence[tf.Variable], options: TrainOptions, networks: Iterable[tf_keras.Model] = ()
) -> list[tf.Variable]:
    """Select the variables to train by the options' patterns and the stages of the backbone.

    Batch-norm statistics are not trainable variables. They are still updated when a layer's weights are
    frozen, as in the Object Detection API.

    Args:
        variables: all trainable variables of the model.
        options: with patterns that may match anywhere in the name without its `:0`, as there.
        networks: of the model; needed for frozen backbone stages.

    Raises:
        ConfigError: when a pattern is invalid or matches nothing, or nothing is left to train.
    """
    chosen = list(variables)
    if options.update_trainable_variables:
        included = _matching(variables, options.update_trainable_variables, "update_trainable_variables")
        chosen = [v for v in chosen if v.name in included]
    frozen = _matching(variables, options.freeze_variables, "freeze_variables")
    if count := options.freeze_backbone_stages:
        frozen |= {name for name, stage in backbone_stages(networks).items() if stage <= count}
    chosen = [v for v in chosen if v.name not in frozen]
    if not chosen:
        raise ConfigError(
            f"at least one variable must be trained, but the patterns leave none of {len(variables)}."
            " Narrow train_config.freeze_variables or widen train_config.update_trainable_variables, or train"
            " more of train_config.freeze_backbone_stages.",
            where="train_config",
        )
    return chosen


def _matching(variables: Sequence[tf.Variable], patterns: Sequence[str], field: str) -> set[str]:
    matched: set[str] = set()
    for pattern in patterns:
        try:
            matcher = re.compile(pattern)
        except re.error as error:
            raise ConfigError(
                f"expected a regular expression, found {pattern!r} ({error}). Mend the pattern.",
                where=f"train_config.{field}",
            ) from error
        names = {v.name for v in variables if matcher.search(scoped_name(v))}
        if not names:
            examples = ", ".join(scoped_name(v) for v in list(variables)[:: max(1, len(variables) // 5)][:5])
            raise ConfigError(
                f"pattern {pattern!r} matches none of the model's {len(variables)} trainable variables."
                f" Patterns are looked for in names such as {examples}.",
                where=f"train_config.{field}",
            )
        matched |= names
    return matched
