"""Learned augmentation policies.

Zoph et al., "Learning Data Augmentation Strategies for Object Detection", 2019,
https://arxiv.org/abs/1906.11172.

A policy is a list of sub-policies; each image gets one of them. A sub-policy is a few operations, each with a
probability and a level of 0..10.
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from detection_core.augment import colour, geometry, patches
from detection_core.augment.augmentation import random_int, uniforms
from detection_core.bounded.plain_yaml import module_table
from detection_core.ops.resampling import change_colours
from detection_core.structures import Sample

SubPolicy = tuple[tuple[str, float, int], ...]

POLICIES: dict[str, tuple[SubPolicy, ...]] = {
    name: tuple(tuple(map(tuple, operations)) for operations in sub_policies)
    for name, sub_policies in module_table(__file__).items()
}
"""Name to policy, from policies.yaml."""

# Images have many boxes, so each box has a smaller probability than a whole image.
_BOX_PROBABILITY = 1.0 / 3.0

_Tone = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
_Warp = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


class Operation(NamedTuple):
    """An operation of a policy.

    Attributes:
        apply: takes sample (image uint8), amount, probability and seed.
        amount: maps a level of 0..10 to the operation's amount.
        either_sign: whether the amount is negated with probability 1/2.
        by_box: whether `apply` itself applies the probability, per box.
    """

    apply: Callable[[Sample, tf.Tensor, tf.Tensor, tf.Tensor], Sample]
    amount: Callable[[float], float]
    either_sign: bool = False
    by_box: bool = False


def _tone(change: _Tone, amount: Callable[[float], float]) -> Operation:
    def apply(sample: Sample, amount: tf.Tensor, probability: tf.Tensor, seed: tf.Tensor) -> Sample:
        return sample._replace(image=change_colours(sample.image, lambda image: change(image, amount)))

    return Operation(apply, amount)


def _in_boxes(
    change: Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor],
    amount: Callable[[float], float],
    masks: _Tone = lambda part, _: part,
    *,
    either_sign: bool = False,
) -> Operation:
    """Return an operation on boxes; `change` takes pixels, amount and seed."""

    def apply(sample: Sample, amount: tf.Tensor, probability: tf.Tensor, seed: tf.Tensor) -> Sample:
        return patches.change_boxes(
            sample,
            lambda part, own: change(part, amount, own),
            lambda part: masks(part, amount),
            probability * _BOX_PROBABILITY,
            seed,
        )

    return Operation(apply, amount, either_sign=either_sign, by_box=True)


def _warp(make: _Warp, largest: float, *, middle: bool = False) -> Operation:
    def apply(sample: Sample, amount: tf.Tensor, probability: tf.Tensor, seed: tf.Tensor) -> Sample:
        size = tf.shape(sample.image)[:2]
        warp = make(size, amount)
        boxes = geometry.warp_boxes(sample.truth.boxes, warp, size, middle=middle)
        return geometry.warp_sample(sample, warp, boxes)

    return Operation(apply, _fraction_of(largest), either_sign=True)


def _warp_in_boxes(make: _Warp, largest: float, *, either_sign: bool = True) -> Operation:
    def warped(part: tf.Tensor, amount: tf.Tensor, fill: int) -> tf.Tensor:
        return geometry.warp_pixels(part, make(tf.shape(part)[:2], amount), fill)

    return _in_boxes(
        lambda part, amount, _: warped(part, amount, geometry.REPLACEMENT),
        _fraction_of(largest),
        lambda part, amount: warped(part, amount, 0),
        either_sign=either_sign,
    )


def _fraction_of(largest: float) -> Callable[[float], float]:
    return lambda level: level / 10.0 * largest


def _int_fraction_of(largest: int) -> Callable[[float], float]:
    return lambda level: int(level / 10.0 * largest)


def _none(level: float) -> float:
    return 0.0


def _factor(level: float) -> float:
    return level / 10.0 * 1.8 + 0.1


def _along(make: Callable[..., tf.Tensor], *, horizontal: bool) -> _Warp:
    """Return a shift or shear, whatever the image's size."""
    return lambda size, amount: make(amount, horizontal=horizontal)


_SHIFT_X, _SHIFT_Y = (_along(geometry.shift, horizontal=axis) for axis in (True, False))
_SHEAR_X, _SHEAR_Y = (_along(geometry.shear, horizontal=axis) for axis in (True, False))

OPERATIONS: dict[str, Operation] = {
    "AutoContrast": _tone(lambda image, _: colour.autocontrast(image), _none),
    "Equalize": _tone(lambda image, _: colour.equalize(image), _none),
    "Posterize": _tone(colour.posterize, _int_fraction_of(4)),
    "Solarize": _tone(colour.solarize, _int_fraction_of(256)),
    "SolarizeAdd": _tone(colour.solarize_add, _int_fraction_of(110)),
    "Color": _tone(colour.enhance_colour, _factor),
    "Contrast": _tone(colour.enhance_contrast, _factor),
    "Brightness": _tone(colour.enhance_brightness, _factor),
    "Sharpness": _tone(colour.enhance_sharpness, _factor),
    "Cutout": Operation(
        lambda s, amount, _, seed: s._replace(image=patches.cut_out(s.image, amount, seed)),
        _int_fraction_of(100),
    ),
    "BBox_Cutout": Operation(
        lambda s, amount, _, seed: patches.cut_out_of_any_box(s, amount, seed), _fraction_of(0.75)
    ),
    "Rotate_BBox": _warp(geometry.rotation, 30.0, middle=True),
    "TranslateX_BBox": _warp(_SHIFT_X, 250.0),
    "TranslateY_BBox": _warp(_SHIFT_Y, 250.0),
    "ShearX_BBox": _warp(_SHEAR_X, 0.3),
    "ShearY_BBox": _warp(_SHEAR_Y, 0.3),
    "Rotate_Only_BBoxes": _warp_in_boxes(geometry.rotation, 30.0),
    "TranslateX_Only_BBoxes": _warp_in_boxes(_SHIFT_X, 120.0),
    "TranslateY_Only_BBoxes": _warp_in_boxes(_SHIFT_Y, 120.0),
    "ShearX_Only_BBoxes": _warp_in_boxes(_SHEAR_X, 0.3),
    "ShearY_Only_BBoxes": _warp_in_boxes(_SHEAR_Y, 0.3),
    "Flip_Only_BBoxes": _warp_in_boxes(lambda size, _: geometry.mirror(size), 0.0, either_sign=False),
    "Solarize_Only_BBoxes": _in_boxes(
        lambda part, amount, _: change_colours(part, lambda image: colour.solarize(image, amount)),
        _int_fraction_of(256),
    ),
    "Equalize_Only_BBoxes": _in_boxes(lambda part, *_: change_colours(part, colour.equalize), _none),
    "Cutout_Only_BBoxes": _in_boxes(patches.cut_out, _int_fraction_of(50)),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class AutoAugmentImage:
    """Apply one sub-policy of a policy of `POLICIES`; the image is rounded to integers."""

    policy_name: str = "v0"

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Augment the sample."""
        policy = POLICIES[self.policy_name]
        chosen = random_int(uniforms(seed, 1)[0], 0, len(policy) - 1)
        image = tf.cast(tf.clip_by_value(tf.round(tf.cast(sample.image, tf.float32)), 0.0, 255.0), tf.uint8)
        sample = sample._replace(image=image)
        for position in range(max(map(len, policy))):
            sample = _apply_one(sample, position, policy, chosen, tf.random.fold_in(seed, position + 1))
        return sample._replace(image=tf.cast(sample.image, tf.float32))


def _apply_one(
    sample: Sample, position: int, policy: tuple[SubPolicy, ...], chosen: tf.Tensor, seed: tf.Tensor
) -> Sample:
    """Apply the operation at one position of the chosen sub-policy.

    The graph holds each of these operations once; tables select operation and arguments.
    """
    nothing = ("", 0.0, 0)
    rows = [sub_policy[position] if position < len(sub_policy) else nothing for sub_policy in policy]
    names = sorted({name for name, _, _ in rows} - {""})
    amounts = [OPERATIONS[name].amount(level) if name else 0.0 for name, _, level in rows]
    probabilities = [1.0 if name and OPERATIONS[name].by_box else p for name, p, _ in rows]
    signed = [bool(name) and OPERATIONS[name].either_sign for name, _, _ in rows]
    draws = uniforms(seed, 2)
    sign = tf.where(tf.gather(signed, chosen) & (draws[1] < 0.5), -1.0, 1.0)
    amount = tf.gather(tf.constant(amounts, tf.float32), chosen) * sign
    probability = tf.gather(tf.constant([row[1] for row in rows], tf.float32), chosen)
    operation_seed = tf.random.fold_in(seed, 1)

    def branch(name: str) -> Callable[[], Sample]:
        return lambda: OPERATIONS[name].apply(sample, amount, probability, operation_seed)

    branches = [lambda: sample, *map(branch, names)]
    numbers = tf.constant([names.index(name) + 1 if name else 0 for name, _, _ in rows])
    taken = draws[0] < tf.gather(tf.constant(probabilities, tf.float32), chosen)
    return tf.switch_case(tf.where(taken, tf.gather(numbers, chosen), 0), branches)
