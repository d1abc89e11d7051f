"""Configuration messages of the Object Detection API."""
