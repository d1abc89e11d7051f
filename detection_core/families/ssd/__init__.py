"""One-stage detectors on anchors: SSD, RetinaNet and EfficientDet of the Object Detection API."""
