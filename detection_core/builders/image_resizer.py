"""Image resizer messages to resizers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from detection_core.builders.oneof import build_oneof
from detection_core.config.messages.detectors import model_resizer
from detection_core.data.resize import (
    AutomlResizer,
    ConditionalShapeResizer,
    FixedShapeResizer,
    IdentityResizer,
    KeepAspectRatioResizer,
    PadToMultipleResizer,
    Resizer,
)
from detection_core.protos import automl_input_pb2, model_pb2
from detection_core.protos import image_resizer_pb2 as pb


def _method(
    message: pb.FixedShapeResizer | pb.KeepAspectRatioResizer | pb.ConditionalShapeResizer,
) -> Any:
    return pb.ResizeType.Name(message.resize_method)


def _fixed_shape(message: pb.FixedShapeResizer) -> Resizer:
    return FixedShapeResizer(
        height=message.height,
        width=message.width,
        resize_method=_method(message),
    )


def _keep_aspect_ratio(message: pb.KeepAspectRatioResizer) -> Resizer:
    return KeepAspectRatioResizer(
        min_dimension=message.min_dimension,
        max_dimension=message.max_dimension,
        resize_method=_method(message),
        pad_to_max_dimension=message.pad_to_max_dimension,
        per_channel_pad_value=tuple(message.per_channel_pad_value),
    )


def _conditional_shape(message: pb.ConditionalShapeResizer) -> Resizer:
    condition: Any = pb.ConditionalShapeResizer.ResizeCondition.Name(message.condition)
    return ConditionalShapeResizer(
        condition=condition,
        size_threshold=message.size_threshold,
        resize_method=_method(message),
    )


def _pad_to_multiple(message: pb.PadToMultipleResizer) -> Resizer:
    return PadToMultipleResizer(multiple=message.multiple)


def _identity(message: pb.IdentityResizer) -> Resizer:
    del message  # It has no fields.
    return IdentityResizer()


def _automl(message: automl_input_pb2.AutomlResizer) -> Resizer:
    return AutomlResizer(
        height=message.height,
        width=message.width,
        per_channel_pad_value=tuple(message.per_channel_pad_value),
    )


IMAGE_RESIZERS: dict[str, Callable[[Any], Resizer]] = {
    "keep_aspect_ratio_resizer": _keep_aspect_ratio,
    "fixed_shape_resizer": _fixed_shape,
    "identity_resizer": _identity,
    "conditional_shape_resizer": _conditional_shape,
    "pad_to_multiple_resizer": _pad_to_multiple,
    "automl_resizer": _automl,
}


def build_image_resizer(message: pb.ImageResizer) -> Resizer:
    """Build the resizer that a checked message describes."""
    return build_oneof(message, "image_resizer_oneof", IMAGE_RESIZERS)


def resizer_name(model: model_pb2.DetectionModel) -> str:
    """Return the arm of a model's image resizer; "none" where it has none."""
    message, _ = model_resizer(model)
    return message.WhichOneof("image_resizer_oneof") or "none"


def model_image_resizer(model: model_pb2.DetectionModel) -> Resizer:
    """Build the resizer of whatever kind of model is configured."""
    return build_image_resizer(model_resizer(model)[0])
