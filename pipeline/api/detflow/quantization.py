"""`QuantizationConfig` under MediaPipe Model Maker's module name."""

from detflow.config import QuantizationConfig

__all__ = ["QuantizationConfig"]
