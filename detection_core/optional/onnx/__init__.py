"""Detection by ONNX files."""

from detection_core.optional.onnx.onnx_runner import OnnxRunner

__all__ = ["OnnxRunner"]
