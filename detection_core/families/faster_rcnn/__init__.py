"""Two-stage detectors: Faster R-CNN and Mask R-CNN of the Object Detection API."""
