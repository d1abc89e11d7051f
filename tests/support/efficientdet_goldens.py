"""What google/automl's EfficientDet computes, in `data`: cases with inputs and outputs."""

import ast
import functools
import gzip
import json
import pathlib
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from detection_core.families.efficientdet.checkpoint_names import automl_variables, regularized
from detection_core.families.efficientdet.settings import settings_of
from detection_core.protos.efficientdet_pb2 import EfficientDet
from detection_core.training.checkpoint_variables import VARIABLE_SUFFIX

DATA = pathlib.Path(__file__).parents[1] / "detection_core" / "families" / "efficientdet" / "data"
_SPREAD = {
    "kernel": lambda random, shape: random.standard_normal(shape) * np.sqrt(0.6 / np.prod(shape[:-1])),
    "depthwise_kernel": lambda random, shape: (
        random.standard_normal(shape) * np.sqrt(0.6 / (shape[0] * shape[1]))
    ),
    "gamma": lambda random, shape: 1 + 0.1 * random.standard_normal(shape),
    "beta": lambda random, shape: 0.2 * random.standard_normal(shape),
    "moving_mean": lambda random, shape: 0.1 * random.standard_normal(shape),
    "moving_variance": lambda random, shape: 0.75 + 0.5 * random.random_sample(shape),
}
_SPREAD["pointwise_kernel"] = _SPREAD["kernel"]


def read_json(name: str) -> Any:
    with gzip.open(DATA / f"{name}.json.gz") as stream:
        return json.load(stream)


@functools.cache
def cases(family: str) -> dict[str, dict[str, Any]]:
    return read_json(family)


@functools.cache
def arrays(family: str) -> dict[str, np.ndarray]:
    return dict(np.load(DATA / f"{family}.npz"))


def given(family: str, case: str) -> dict[str, np.ndarray]:
    return _of_case(family, f"{case}/input/")


def wanted(family: str, case: str) -> dict[str, np.ndarray]:
    return _of_case(family, f"{case}/output/")


def _of_case(family: str, start: str) -> dict[str, np.ndarray]:
    return {key.removeprefix(start): value for key, value in arrays(family).items() if key.startswith(start)}


def sampled(array: Any) -> np.ndarray:
    """The numbers of an array that a golden has: 512 of those of a large one."""
    flat = np.asarray(array).reshape(-1)
    return flat if flat.size <= 4096 else flat[np.linspace(0, flat.size - 1, 512).astype(np.int64)]


def deterministic_weight(key: str, shape: tuple[int, ...]) -> np.ndarray:
    random = np.random.RandomState(zlib.crc32(f"{key}{VARIABLE_SUFFIX}".encode()))
    spread = _SPREAD.get(key.rpartition("/")[2], lambda random, shape: 0.1 * random.standard_normal(shape))
    return np.asarray(spread(random, shape), np.float32)


def set_deterministic_weights(network: Any, settings: Any) -> None:
    for key, _, variable in automl_variables(network, settings):
        variable.assign(deterministic_weight(key, tuple(variable.shape)))


def assert_variables(name: str, network: Any, settings: Any) -> None:
    """A network's variables have the reference's keys, names, shapes and order."""
    golden, variables = read_json(name), automl_variables(network, settings)
    found = {
        f"{key}{VARIABLE_SUFFIX}": [list(variable.shape), "float32", own, variable.trainable]
        for key, own, variable in variables
    }
    assert found == {key: rest for key, *rest in golden["variables"]}
    trainable = [own for _, own, variable in variables if variable.trainable]
    assert trainable == golden["trainable_variables_order"]
    assert sum(int(np.prod(own.variable.shape)) for own in variables) == golden["num_parameters"]
    assert len(list(regularized(variables))) == golden["l2_regularised"]["count"]


def level_parts(settings: Any, size: tuple[int, int]) -> Iterator[tuple[int, slice]]:
    """Yield each level and the rows of a network's outputs that belong to it."""
    at = 0
    for level, (rows, columns) in zip(settings.levels, settings.map_shapes(size), strict=True):
        end = at + rows * columns * settings.anchors_per_location
        yield level, slice(at, end)
        at = end


def assert_levels(
    settings: Any, size: tuple[int, int], heads: tuple[Any, Any], wanted: Any, name: str
) -> None:
    """Codes and logits of each level are the reference's, where `name` has {kind} and {level}."""
    for level, part in level_parts(settings, size):
        for kind, outputs in zip(("box", "cls"), heads, strict=True):
            golden = np.asarray(wanted[name.format(kind=kind, level=level)]).reshape(-1)
            np.testing.assert_allclose(sampled(outputs[:, part]), golden, 1e-3, 1e-3)
    assert part.stop == heads[0].shape[1]


def message(name: str = "efficientdet-d0", size: Any = None, **fields: Any) -> EfficientDet:
    """A message; `size` as google/automl writes it: a side, "WIDTHxHEIGHT" or (rows, columns)."""
    found = EfficientDet(name=name, num_classes=90)
    if size is not None:
        if isinstance(size, str) and "x" in size:
            size = tuple(reversed([int(side) for side in size.split("x")]))
        rows, columns = size if isinstance(size, tuple) else (int(size), int(size))
        found.image_resizer.fixed_shape_resizer.height = rows
        found.image_resizer.fixed_shape_resizer.width = columns
    for field, value in fields.items():
        if isinstance(value, (list, tuple)):
            getattr(found, field).extend(value)
        else:
            setattr(found, field, value)
    return found


def settings(name: str = "efficientdet-d0", size: Any = None, **fields: Any) -> Any:
    return settings_of(message(name, size, **fields))


def anchor_settings(params: dict[str, Any]) -> tuple[Any, tuple[int, int]]:
    """Settings and input size of a golden that says how anchors are laid, in texts or in values."""
    values = {key: _value(value) for key, value in params.items()}
    scale = values.get("anchor_scale", 4.0)
    fields: dict[str, Any] = {
        "min_level": values["min_level"],
        "max_level": values["max_level"],
        "num_scales": values["num_scales"],
        "anchor_scale": scale if isinstance(scale, (list, tuple)) else [scale],
    }
    ratios = values["aspect_ratios"]
    if any(isinstance(ratio, list) for ratio in ratios):
        pairs = [ratio if isinstance(ratio, list) else [ratio**0.5, ratio**-0.5] for ratio in ratios]
        shapes = [EfficientDet.AnchorShape(width_factor=pair[0], height_factor=pair[1]) for pair in pairs]
        fields["anchor_shapes"] = shapes
    else:
        fields["aspect_ratios"] = ratios
    found = settings(size=values["image_size"], **fields)
    return found, found.image_size


def _value(text: Any) -> Any:
    try:
        return ast.literal_eval(text) if isinstance(text, str) else text
    except (ValueError, SyntaxError):
        return text


def padded_truth(images: Iterable[tuple[Any, Any]]) -> Any:
    """Objects of images, each of boxes and of the reference's labels, which count from 1."""
    import tensorflow as tf

    from detection_core.ops.objects import new_truth

    images = [(np.asarray(boxes), np.asarray(labels).reshape(-1)) for boxes, labels in images]
    most = max([len(boxes) for boxes, _ in images] + [1])
    boxes = np.zeros((len(images), most, 4), np.float32)
    classes = np.zeros((len(images), most), np.int32)
    valid = np.zeros((len(images), most), bool)
    for index, (own, labels) in enumerate(images):
        boxes[index, : len(own)], valid[index, : len(own)] = own, True
        classes[index, : len(own)] = labels - 1
    fields = {"boxes": boxes, "classes": classes, "weights": valid.astype(np.float32), "valid": valid}
    return new_truth(**{name: tf.constant(value) for name, value in fields.items()})


def predictions(maps: dict[str, Any], names: str, settings: Any, size: tuple[int, int], classes: int) -> Any:
    """Outputs of two images, from maps with names such as "{kind}_{level}", where kinds are box and cls."""
    import tensorflow as tf

    from detection_core.families.efficientdet.anchors import anchors_px
    from detection_core.parts.anchor_criterion import AnchorPredictions

    def joined(kind: str, columns: int) -> Any:
        levels = (maps[names.format(kind=kind, level=level)] for level in settings.levels)
        return tf.constant(np.concatenate([each.reshape(2, -1, columns) for each in levels], axis=1))

    return AnchorPredictions(
        box_codes=joined("box", 4),
        class_logits=joined("cls", classes),
        anchors=tf.constant(anchors_px(settings, size)),
    )


def small_message(**fields: Any) -> EfficientDet:
    """A message of lite0 at 64 x 64 with three classes, one cell and one layer before each head."""
    defaults = {"fpn_cell_repeats": 1, "box_class_repeats": 1, "num_classes": 3}
    return message("efficientdet-lite0", fields.pop("size", 64), **defaults | fields)


def small_detector(seed: int | None = 0, **fields: Any) -> Any:
    """Build the detector of a message like `message`."""
    from detection_core.families.efficientdet.build import build_efficientdet

    return build_efficientdet(small_message(**fields), "model.efficientdet", seed)
