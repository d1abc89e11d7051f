"""Which variables are trained."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import tensorflow as tf
import tf_keras

from detection_core.errors import ConfigError
from detection_core.parts.layers.layer_names import scoped_name
from detection_core.training.backbone_stages import backbone_stages
from detection_core.training.loop_options import TrainOptions


def trained_variables(
    variables: Sequence[tf.Variable], options: TrainOptions, networks: Iterable[tf_keras.Model] = ()
) -> list[tf.Variable]:
    """Pick the variables to train by the options' patterns, and by the stages of the backbone.

    Batch-norm statistics are no trainable variables: freezing a layer's weights leaves them moving, as it
    does in the Object Detection API.

    Args:
        variables: all trainable variables of the model.
        options: holds the patterns, found anywhere in the name without its `:0`, as there.
        networks: of the model; needed where stages of the backbone are not trained.

    Raises:
        ConfigError: when a pattern is no regular expression or matches nothing, or nothing is left to train.
    """
    chosen = list(variables)
    if options.update_trainable_variables:
        included = _matching(variables, options.update_trainable_variables, "update_trainable_variables")
        chosen = [v for v in chosen if v.name in included]
    frozen = _matching(variables, options.freeze_variables, "freeze_variables")
    frozen |= _first_stages(networks, options.freeze_backbone_stages)
    chosen = [v for v in chosen if v.name not in frozen]
    if not chosen:
        raise ConfigError(
            f"at least one variable must be trained, but the patterns leave none of {len(variables)}."
            " Narrow train_config.freeze_variables or widen train_config.update_trainable_variables, or train"
            " more of train_config.freeze_backbone_stages.",
            where="train_config",
        )
    return chosen


def _first_stages(networks: Iterable[tf_keras.Model], count: int) -> set[str]:
    """Return the names of the variables of a backbone's first stages."""
    return {name for name, stage in backbone_stages(networks).items() if stage <= count} if count else set()


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
