"""Image resizer messages to resizers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from detection_core.builders.oneof import build_oneof
from detection_core.data.resize import (
    ConditionalShapeResizer,
    FixedShapeResizer,
    IdentityResizer,
    KeepAspectRatioResizer,
    PadToMultipleResizer,
    Resizer,
)
from detection_core.errors import ConfigError
from detection_core.protos import image_resizer_pb2 as pb
from detection_core.protos import model_pb2


def _method(message: Any) -> Any:
    return pb.ResizeType.Name(message.resize_method)


def _fixed_shape(message: pb.FixedShapeResizer) -> Resizer:
    if message.height <= 0 or message.width <= 0:
        raise ConfigError(
            f"expected height and width above 0, found {message.height} and {message.width}; set both"
        )
    return FixedShapeResizer(
        height=message.height,
        width=message.width,
        resize_method=_method(message),
        convert_to_grayscale=message.convert_to_grayscale,
    )


def _keep_aspect_ratio(message: pb.KeepAspectRatioResizer) -> Resizer:
    return KeepAspectRatioResizer(
        min_dimension=message.min_dimension,
        max_dimension=message.max_dimension,
        resize_method=_method(message),
        pad_to_max_dimension=message.pad_to_max_dimension,
        convert_to_grayscale=message.convert_to_grayscale,
        per_channel_pad_value=tuple(message.per_channel_pad_value),
    )


def _conditional_shape(message: pb.ConditionalShapeResizer) -> Resizer:
    condition: Any = pb.ConditionalShapeResizer.ResizeCondition.Name(message.condition)
    if condition == "INVALID":
        raise ConfigError("expected a condition GREATER or SMALLER, found INVALID; set one of them")
    return ConditionalShapeResizer(
        condition=condition,
        size_threshold=message.size_threshold,
        resize_method=_method(message),
        convert_to_grayscale=message.convert_to_grayscale,
    )


def _pad_to_multiple(message: pb.PadToMultipleResizer) -> Resizer:
    return PadToMultipleResizer(multiple=message.multiple, convert_to_grayscale=message.convert_to_grayscale)


def _identity(message: pb.IdentityResizer) -> Resizer:
    del message  # It has no fields.
    return IdentityResizer()


IMAGE_RESIZERS: dict[str, Callable[[Any], Resizer]] = {
    "keep_aspect_ratio_resizer": _keep_aspect_ratio,
    "fixed_shape_resizer": _fixed_shape,
    "identity_resizer": _identity,
    "conditional_shape_resizer": _conditional_shape,
    "pad_to_multiple_resizer": _pad_to_multiple,
}


def build_image_resizer(message: pb.ImageResizer, where: str = "image_resizer") -> Resizer:
    """Build the resizer that a message describes.

    Args:
        message: the message.
        where: its path in the configuration, for errors.

    Raises:
        ConfigError: when none is set or its values contradict each other.
    """
    try:
        return build_oneof(message, "image_resizer_oneof", IMAGE_RESIZERS, where)
    except ValueError as error:
        raise ConfigError(f"{error}; correct it", where=where) from error


def model_image_resizer(model: model_pb2.DetectionModel) -> Resizer:
    """Build the resizer of whatever kind of model is configured.

    Raises:
        ConfigError: when the model has none, or it cannot be built.
    """
    arm = model.WhichOneof("model")
    body = getattr(model, arm) if arm else None
    if body is None or "image_resizer" not in body.DESCRIPTOR.fields_by_name:
        raise ConfigError(
            f"expected a model with an image_resizer, found {arm or 'no model'}; set model.ssd", where="model"
        )
    return build_image_resizer(body.image_resizer, f"model.{arm}.image_resizer")
