"""Object detection with the names of TFLite Model Maker and MediaPipe Model Maker."""

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
from detflow.object_detector.mediapipe_data import Dataset
from detflow.object_detector.mediapipe_detector import MediaPipeDetector
from detflow.object_detector.mediapipe_options import (
    HParams,
    ModelOptions,
    ModelSpec,
    ObjectDetectorOptions,
    QATHParams,
    SupportedModels,
)

__all__ = [
    "DataLoader", "Dataset", "EfficientDetLite0Spec", "EfficientDetLite1Spec", "EfficientDetLite2Spec",
    "EfficientDetLite3Spec", "EfficientDetLite4Spec", "EfficientDetSpec", "HParams", "MediaPipeDetector",
    "ModelOptions", "ModelSpec", "ObjectDetector", "ObjectDetectorOptions", "QATHParams", "SupportedModels",
    "create",
]  # fmt: skip
