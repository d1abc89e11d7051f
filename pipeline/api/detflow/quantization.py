"""`QuantizationConfig`, in the module where MediaPipe Model Maker has it."""

from __future__ import annotations

from detflow.config import QuantizationConfig

__all__ = ["QuantizationConfig"]
