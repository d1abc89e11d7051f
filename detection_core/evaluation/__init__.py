"""COCO metrics, thresholds and pictures."""
