"""`QuantizationConfig` under MediaPipe Model Maker's module name."""

from __future__ import annotations

from detflow.config import QuantizationConfig

__all__ = ["QuantizationConfig"]
