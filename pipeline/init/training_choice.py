"""Choose the length and settings of a first training by the amount of data and the memory."""

from collections.abc import Mapping, Sequence
from typing import Any

from detection_core.bounded.plain_yaml import module_table
from detection_core.datasets.survey import Survey
from detection_core.zoo.fine_tuning import FEW_IMAGES, MANY_IMAGES, Choice, fine_tuning_recipe
from detection_core.zoo.networks import Kind, PublishedModel
from pipeline.doctor.machine import GIB
from pipeline.init.hardware import Hardware
from pipeline.init.network_choice import NetworkChoice, choose_flips

_BATCHES = ((500, 8), (5_000, 16))
_LARGEST_BATCH = 32
_FREE_SHARE = 0.6  # share of the memory for a training step
_FIXED_BYTES = int(1.5 * GIB)  # TensorFlow itself, weights, input pipeline
_SCHEDULE = "learning_rate.cosine_decay_learning_rate"
_SCRATCH = "https://arxiv.org/abs/1811.08883"
_LINEAR_SCALING = "https://arxiv.org/abs/1706.02677"
_SSD = "SSD, https://arxiv.org/abs/1512.02325"
_LEAST_BOXES = 20
_TABLE = module_table(__file__)
VALIDATION = "train_config.validation"
_VALIDATIONS, _MOST_VALIDATED = 30, 500  # per training; images per validation
_PATIENCE = 10  # validations: a third of the training
_LEAST_VALIDATED = 10  # fewer images give too random a metric to select weights
MOST_OBJECTS = 1_000
"""Maximum objects of an image in a first workflow: each costs every other image memory and time."""


def choose_batch(train_images: int, chosen: NetworkChoice, hardware: Hardware) -> Choice:
    """Choose the batch size."""
    batch = next((batch for images, batch in _BATCHES if train_images < images), _LARGEST_BATCH)
    batch = min(batch, max(1, train_images))
    an_image = chosen.network.training_bytes * chosen.size[0] * chosen.size[1]
    room = _FREE_SHARE * hardware.memory - _FIXED_BYTES if hardware.memory else 0.0
    wanted = batch
    while hardware.memory and batch > 1 and batch * an_image > room:
        batch //= 2
    reason = f"{-(-train_images // batch):,} updates for {train_images:,} images"
    if an_image:
        reason += f"; a step takes about {(batch * an_image + _FIXED_BYTES) / GIB:.1f} GiB"
    if batch < wanted:
        reason += (
            f", {wanted} images would take more than {_FREE_SHARE:.0%} of {hardware.memory / GIB:.0f} GiB"
        )
    return Choice(path="train_config.batch_size", value=batch, reason=reason)


def choose_training(
    seen: Survey, train_images: int, chosen: NetworkChoice, batch: Choice, *, weights: bool
) -> tuple[Choice, ...]:
    """Choose the settings of a training, from published weights or from scratch."""
    flips = choose_flips(chosen.network, seen)
    if weights and isinstance(chosen.network, PublishedModel):
        data = {"images": train_images, "classes": len(seen.classes), "batch_size": batch.value}
        recipe = fine_tuning_recipe(chosen.network, **data, flips=flips)
        choices = [batch if choice.path == batch.path else choice for choice in recipe]
    else:
        choices = [batch, *_from_scratch(chosen.network.kind, train_images, batch.value, flips)]
        if norm := chosen.network.kind.gradient_norm:
            source = "https://arxiv.org/abs/1911.09070"
            path, reason = "train_config.gradient_clipping_by_norm", "as its published config has it"
            choices.append(Choice(path=path, value=norm, reason=reason, source=source))
    return *choices, _boxes(seen)


def choose_validation(steps: int, images: int) -> Choice:
    """Choose the validation by the training's length and the eval images with objects."""
    value: dict[str, Any] = {"every_steps": max(1, steps // _VALIDATIONS)}
    if images < _LEAST_VALIDATED:
        return Choice(
            path=VALIDATION,
            value={**value, "weights": "LAST"},
            reason=f"the metric of {images:,} images is too random to choose weights by, so the last weights"
            " are written. With more images, remove `weights` and set `patience`",
        )
    if images > _MOST_VALIDATED:
        value["max_images"] = _MOST_VALIDATED
    return Choice(
        path=VALIDATION,
        value={**value, "patience": _PATIENCE},
        reason="the weights with the best mAP on the split eval are written; training stops after"
        f" {_PATIENCE} of about {_VALIDATIONS} validations without a better one",
    )


def num_steps(choices: tuple[Choice, ...]) -> int:
    """Return the chosen length of the training."""
    return next(int(choice.value) for choice in choices if choice.path == "train_config.num_steps")


def schedule(choices: tuple[Choice, ...]) -> Choice:
    """Return the chosen schedule of the learning rate, a cosine decay."""
    return next(choice for choice in choices if choice.path.endswith(_SCHEDULE))


def _boxes(seen: Survey) -> Choice:
    return Choice(
        path="train_config.max_number_of_boxes",
        value=min(max(_LEAST_BOXES, 10 * -(-seen.most_objects // 10)), MOST_OBJECTS),
        reason=f"the fullest picture has {seen.most_objects:,} objects; more are left out of a step",
        source="the data",
    )


def _from_scratch(kind: Kind, images: int, batch: int, flips: Sequence[Mapping[str, Any]]) -> list[Choice]:
    epochs = 100 if images < FEW_IMAGES else 50 if images < MANY_IMAGES else 24
    steps = min(max(-(-epochs * images // batch), 1_500), 150_000)
    warm_up = min(max(steps // 20, 50), 1_000)
    cosine = kind.cosine(batch, steps, warm_up, from_scratch=True)
    rate = cosine["learning_rate_base"]
    return [
        Choice(
            path="train_config.num_steps",
            value=steps,
            reason=(
                f"{steps * batch / images:.0f} epochs of {images:,} images: without weights to start from a"
                " detector needs several times as many"
            ),
            source=_SCRATCH,
        ),
        Choice(
            path=f"{kind.optimizer_path}.{_SCHEDULE}",
            value=cosine,
            reason=f"a peak of {rate:g} for batches of {batch} after {warm_up} steps of warm-up, then to 0",
            source=_LINEAR_SCALING,
        ),
        *(
            Choice(path=f"{kind.optimizer_path}.{name}", value=v)
            for name, v in kind.optimizer_options.items()
        ),
        Choice(path="train_config.optimizer.use_moving_average", value=False),
        _augmentation(images, flips),
    ]


def _augmentation(images: int, flips: Sequence[Mapping[str, Any]]) -> Choice:
    if images < MANY_IMAGES:
        steps = [*flips, *_TABLE["light"], _TABLE["careful_crop"]]
        reason = "flips, light and crops that keep objects nearly whole"
    else:
        steps = [*flips, _TABLE["wide_crop"]]
        reason = "flips and crops, as many pictures vary by themselves"
    return Choice(
        path="train_config.data_augmentation_options",
        value=steps,
        reason=(
            f"{reason}, for {images:,} images; take the flip away where left and right differ, as in writing,"
            " and add random_vertical_flip where pictures are taken from above"
        ),
        source=_SSD,
    )
