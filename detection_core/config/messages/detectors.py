"""Detectors: what every family of them has, and which families are built here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from detection_core.config.messages.extractors import name_problems
from detection_core.config.problems import Problem, missing_arm
from detection_core.config.rules import Rules
from detection_core.detectors.family import find_family
from detection_core.protos.model_pb2 import DetectionModel


def model_of(model: DetectionModel) -> tuple[str, Any]:
    """Return the arm of the model that is set, and its message; "" and None where none is."""
    arm = model.WhichOneof("model")
    return (arm, getattr(model, arm)) if arm else ("", None)


def _common(model: DetectionModel, path: str) -> Iterator[Problem]:
    """Check what every family has."""
    arm, message = model_of(model)
    if family := find_family(model):
        yield from family.check.problems(message, f"{path}.{arm}")
    if message is None or "image_resizer" not in message.DESCRIPTOR.fields_by_name:
        return
    path = f"{path}.{arm}"
    if message.num_classes < 1:
        text = f"expected the number of classes without background, found {message.num_classes}"
        yield Problem(path=f"{path}.num_classes", message=text)
    yield from name_problems(message.feature_extractor.type, f"{path}.feature_extractor.type")
    yield from missing_arm(message.image_resizer, "image_resizer_oneof", f"{path}.image_resizer")


RULES: Mapping[str, Rules] = {
    "DetectionModel": Rules(
        "detectors.family",
        oneofs=("model",),
        check=_common,
        refused={
            "faster_rcnn": "two-stage detectors are not built here; use ssd, for accuracy with "
            "ssd_resnet50_v1_fpn_keras",
            "center_net": "CenterNet is not built here; use ssd",
            "experimental_model": "it only names code that is not in the config; use ssd",
        },
    ),
}
