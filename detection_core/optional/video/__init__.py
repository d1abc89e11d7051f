"""Object detection in video files."""

from detection_core.optional.video.video_detection import VideoOptions, predict_video

__all__ = ["VideoOptions", "predict_video"]
