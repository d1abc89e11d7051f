"""Recipe for fine-tuning a published detector: settings, each with reason and source."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from detection_core.bounded.plain_yaml import module_table
from detection_core.zoo.networks import PublishedModel

FEW_IMAGES, MANY_IMAGES = 1_000, 10_000
"""Below the first number, a data set has few images; from the second on, many."""
SMALL_BATCH = 8
"""Batch size below which batch statistics are too noisy for normalisation."""

_MEASURED = "measured by benchmarks/starting_weights.py"
_BIT = "Big Transfer, https://arxiv.org/abs/1912.11370"
_LINEAR_SCALING = "linear scaling and warm-up, https://arxiv.org/abs/1706.02677"
_TRANSFER = "https://arxiv.org/abs/1805.08974"
_HYPERPARAMETERS = "https://arxiv.org/abs/2002.11770"
_EFFICIENT_DET = "EfficientDet, https://arxiv.org/abs/1911.09070"
_GROUP_NORM = "https://arxiv.org/abs/1803.08494"
_LEARNED_AUGMENTATION = "https://arxiv.org/abs/1906.11172"
_SSD = "SSD, https://arxiv.org/abs/1512.02325"
_SETTINGS = "train."
_PUBLISHED = "the detector's published configuration"

_TABLE = module_table(__file__)

FLIPS: Sequence[Mapping[str, Any]] = ({"random_horizontal_flip": {}},)
"""Augmentations that mirror images without keypoints."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Choice:
    """A setting of the recipe.

    Attributes:
        path: field path of the pipeline.config, or a key of the settings file, which begins with `train.`.
        value: as overrides take it.
        reason: one sentence without a full stop.
        source: the paper or the measurement that supports it, if any.
    """

    path: str
    value: Any
    reason: str = ""
    source: str = ""


def _choices(values: Mapping[str, Any], reason: str, source: str) -> tuple[Choice, ...]:
    """Return the settings, path to value, of one reason and source."""
    return tuple(Choice(path=p, value=v, reason=reason, source=source) for p, v in values.items())


def config_fields(choices: Iterable[Choice]) -> dict[str, Any]:
    """Return field path of the pipeline.config to value."""
    return {c.path: c.value for c in choices if not c.path.startswith(_SETTINGS)}


def fine_tuning_recipe(
    model: PublishedModel,
    *,
    images: int,
    classes: int,
    batch_size: int,
    num_steps: int = 0,
    flips: Sequence[Mapping[str, Any]] = FLIPS,
) -> tuple[Choice, ...]:
    """Choose the settings to fine-tune a published detector, in the order of presentation.

    The counts are of training images, classes in the data, and images per update. `num_steps` is the length
    of the training; 0: by the amount of data. `flips` are the augmentations that mirror images; those of
    keypoints say which keypoint becomes which.

    Raises:
        ValueError: for a number below 1, or `num_steps` below 0.
    """
    if min(images, classes, batch_size) < 1 or num_steps < 0:
        raise ValueError(f"expected positive numbers, found {images}, {classes}, {batch_size}, {num_steps}")
    length = _length(images, batch_size) if num_steps == 0 else (num_steps, "as given", "the caller")
    return (
        Choice(
            path="train.start_from",
            value=f"zoo:{model.name}",
            reason=(
                "the weights of backbone, pyramid and the heads' shared layers are restored. The last"
                f" layer starts from random weights, for {classes:,} classes"
            ),
            source=_MEASURED,
        ),
        Choice(path="train_config.batch_size", value=batch_size, reason="as given", source="the caller"),
        Choice(path="train_config.num_steps", value=length[0], reason=length[1], source=length[2]),
        *_schedule(model, batch_size, length[0]),
        *(Choice(path=path, **entry, source=_EFFICIENT_DET) for path, entry in _TABLE["averages"].items()),
        *_batch_norm(model, batch_size, length[0]),
        _augmentation(model, images, flips),
    )


def _length(images: int, batch_size: int) -> tuple[int, str, str]:
    epochs = 60 if images < FEW_IMAGES else 30 if images < MANY_IMAGES else 12
    steps = min(max(-(-epochs * images // batch_size), 1_000), 100_000)
    reason = (
        f"{steps * batch_size / images:.0f} epochs of {images:,} images: from trained weights a detector"
        " needs only a fraction of the steps that it needs from scratch"
    )
    return steps, reason, "https://arxiv.org/abs/1811.08883"


_WARM_UP_SHARE, _LONGEST_WARM_UP = 0.1, 500


def _schedule(model: PublishedModel, batch_size: int, num_steps: int) -> tuple[Choice, ...]:
    warm_up = max(1, min(int(_WARM_UP_SHARE * num_steps), _LONGEST_WARM_UP))
    cosine = model.kind.cosine(batch_size, num_steps, warm_up)
    optimizer = model.kind.optimizer_path
    return (
        Choice(
            path=f"{optimizer}.learning_rate.cosine_decay_learning_rate",
            value=cosine,
            reason=(
                f"a peak of {cosine['learning_rate_base']:g}, at most half of the rate from scratch, because"
                " trained weights are already good. It is scaled with the batch size."
                f" {warm_up} steps of warm-up protect them from the first, large gradients of the new layers"
            ),
            source=f"{_MEASURED}; {_HYPERPARAMETERS}; {_LINEAR_SCALING}; {_BIT}",
        ),
        *_choices(
            {f"{optimizer}.{name}": value for name, value in model.kind.optimizer_options.items()},
            "all layers are trained, none is frozen: features that adapt beat fixed ones",
            _TRANSFER,
        ),
    )


_SHORT = 3_000


def _batch_norm(model: PublishedModel, batch_size: int, num_steps: int) -> tuple[Choice, ...]:
    """Adapt batch normalisation to small batches and short trainings."""
    if batch_size < SMALL_BATCH:
        reason = (
            f"statistics of {batch_size} images are too noisy to normalise by; those of the published weights"
            " are kept"
        )
        return _choices(model.kind.small_batch, reason, _GROUP_NORM)
    if num_steps >= _SHORT:
        return ()
    reason = f"moving statistics follow within a hundred of the {num_steps:,} steps"
    return _choices(model.kind.short_training, reason, _MEASURED)


def _augmentation(model: PublishedModel, images: int, flips: Sequence[Mapping[str, Any]]) -> Choice:
    colours, crop = _TABLE["colours"], _TABLE["careful_crop"]
    if images < FEW_IMAGES:
        steps = [*flips, *colours, crop]
        reason = f"{images:,} images are few: flips, colours and crops that keep half of an object"
        source = f"{_LEARNED_AUGMENTATION}; {_SSD}"
    elif images < MANY_IMAGES:
        steps = [*flips, *colours[:2], crop]
        reason = f"flips, light and crops for {images:,} images"
        source = f"{_LEARNED_AUGMENTATION}; {_SSD}"
    else:
        steps = [*flips, model.augmentation]
        reason = f"{images:,} images vary by themselves: as the detector was trained"
        source = _PUBLISHED
    return Choice(
        path="train_config.data_augmentation_options",
        value=steps,
        reason=f"{reason}; take the flip away where left and right differ, as in writing",
        source=source,
    )
