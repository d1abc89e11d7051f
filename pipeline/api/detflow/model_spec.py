"""Models by Model Maker's names: `model_spec.get("efficientdet_lite0")`."""

from typing import Any

from detection_core.config.suggestions import did_you_mean
from detection_core.errors import ConfigError, shorten
from detflow.object_detector.efficientdet_spec import MODELS, EfficientDetSpec

__all__ = ["OBJECT_DETECTION_MODELS", "get"]

OBJECT_DETECTION_MODELS = list(MODELS)
"""Names that `get` accepts."""


def get(spec_or_str: str | EfficientDetSpec, *args: Any, **kwargs: Any) -> EfficientDetSpec:
    """Return the specification of a model.

    Args:
        spec_or_str: one of `OBJECT_DETECTION_MODELS`, a function that returns a specification, or a
            specification, which is returned unchanged.
        *args: for that function.
        **kwargs: for that function, such as `epochs=20`.

    Raises:
        ConfigError: for an unknown name, with the nearest one.
    """
    if isinstance(spec_or_str, EfficientDetSpec):
        return spec_or_str
    if callable(spec_or_str):
        made: EfficientDetSpec = spec_or_str(*args, **kwargs)
        return made
    if spec_or_str not in MODELS:
        others = "other tasks than object detection are not supported"
        hint = did_you_mean(str(spec_or_str), OBJECT_DETECTION_MODELS, others)
        raise ConfigError(
            f"expected one of {', '.join(OBJECT_DETECTION_MODELS)}, found {shorten(spec_or_str)}; {hint}",
            where="model_spec",
        )
    return MODELS[spec_or_str](*args, **kwargs)
