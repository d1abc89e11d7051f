"""Rules that all detector families share, and the families that are built here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from detection_core.config.messages.extractors import name_problems, type_problems
from detection_core.config.messages.image_resizers import network_size
from detection_core.config.messages.registered import option_problems
from detection_core.config.problems import missing_arm
from detection_core.detectors.family import extractor_type, family_name, find_family, model_message
from detection_core.detectors.rules import Rules
from detection_core.errors import Problem
from detection_core.protos.image_resizer_pb2 import ImageResizer
from detection_core.protos.model_pb2 import DetectionModel


def model_resizer(model: DetectionModel) -> tuple[ImageResizer, str]:
    """Return a model's image resizer and its field path.

    Without an `image_resizer` in the config, images are resized to the family's input size. Without that, the
    message is empty. The model's `options` must be valid.
    """
    message, path = model_message(model)
    resizer = getattr(message, "image_resizer", ImageResizer())
    size = None if resizer.ListFields() else _own_size(model)
    if size is not None:
        resizer = ImageResizer()
        resizer.fixed_shape_resizer.height, resizer.fixed_shape_resizer.width = size
    return resizer, f"{path}.image_resizer"


def unchecked_resizer(model: DetectionModel) -> tuple[ImageResizer, str]:
    """Do the same as `model_resizer`, but ignore the family's input size if options are invalid."""
    message, path = model_message(model)
    if any(_option_problems(model, path)):
        return getattr(message, "image_resizer", ImageResizer()), f"{path}.image_resizer"
    return model_resizer(model)


def _own_size(model: DetectionModel) -> tuple[int, int] | None:
    family = find_family(model)
    return family.input_size(model_message(model)[0]) if family else None


def _option_problems(model: DetectionModel, path: str) -> Iterator[Problem]:
    family = find_family(model)
    if family and model.WhichOneof("model") == "experimental_model":
        yield from option_problems(family.options, model.experimental_model, path)


def _resizer_problems(model: DetectionModel, path: str) -> Iterator[Problem]:
    """Find a missing resizer, and one whose output size the family does not accept."""
    resizer, size = model_resizer(model)[0], _own_size(model)
    yield from missing_arm(resizer, "image_resizer_oneof", path)
    family = find_family(model)
    if family and not family.other_sizes and size is not None and network_size(resizer) != size:
        found = resizer.WhichOneof("image_resizer_oneof")
        text = f"expected a resizer to {size[0]} x {size[1]}, which {family_name(model)} takes, found {found}"
        yield Problem(path=path, message=f"{text} to another size; change or remove it")


def _extractor_problems(model: DetectionModel, path: str) -> Iterator[Problem]:
    extractor, family = extractor_type(model_message(model)[0]), find_family(model)
    if family:
        # Families without the field have no types.
        known = family.extractor_types
        yield from type_problems(extractor, path, known) if known else ()
    else:
        yield from name_problems(extractor, path)


def _common(model: DetectionModel, path: str) -> Iterator[Problem]:
    """Check the fields that every family has."""
    message, _ = model_message(model)
    family, arm = find_family(model), model.WhichOneof("model")
    # Without a registered family, only the name of an experimental_model can be refused.
    if message is None or (family is None and arm == "experimental_model"):
        return
    path = f"{path}.{arm}"
    if message.HasField("num_classes") and message.num_classes < 1:
        text = f"expected the number of classes without background, found {message.num_classes}"
        yield Problem(path=f"{path}.num_classes", message=text)
    wrong_options = list(_option_problems(model, path))
    yield from wrong_options
    if not wrong_options:
        yield from _resizer_problems(model, f"{path}.image_resizer")
        yield from family.problems(message, path) if family else ()
    if arm != "experimental_model":
        yield from _extractor_problems(model, f"{path}.feature_extractor.type")


def missing_classes_problems(model: DetectionModel) -> Iterator[Problem]:
    """Find a missing number of classes, which is required only to build a detector."""
    message, place = model_message(model)
    if message is not None and not message.HasField("num_classes"):
        text = (
            "expected the number of classes without background, found none; set it, or train with a label"
            " map, which it then follows"
        )
        yield Problem(path=f"{place}.num_classes", message=text)


RULES: Mapping[str, Rules] = {
    "DetectionModel": Rules(
        oneofs=("model",),
        check=_common,
        refused={
            "experimental_model": "it names code that is not in the config, and no family of that name is"
            " registered; use ssd, or register the family",
        },
    ),
}
