"""Object detection under the names of TFLite Model Maker and of MediaPipe Model Maker."""

from __future__ import annotations

from detflow.object_detector.data_loader import DataLoader
from detflow.object_detector.efficientdet_detector import ObjectDetector, create
from detflow.object_detector.efficientdet_spec import (
    EfficientDetLite0Spec,
    EfficientDetLite1Spec,
    EfficientDetLite2Spec,
    EfficientDetLite3Spec,
    EfficientDetLite4Spec,
    EfficientDetSpec,
)

__all__ = [
    "DataLoader",
    "EfficientDetLite0Spec",
    "EfficientDetLite1Spec",
    "EfficientDetLite2Spec",
    "EfficientDetLite3Spec",
    "EfficientDetLite4Spec",
    "EfficientDetSpec",
    "ObjectDetector",
    "create",
]
