"""Run MediaPipe's ObjectDetector in a separate environment without detflow.

    python detect.py FILE MODE MOST IMAGE...

IMAGE is an .npy file, uint8 [H, W, 3]. It prints a list for each image: category, score, and the box as
[ymin, xmin, ymax, xmax], pixels.
"""

import json
import sys

import mediapipe
import numpy as np
from mediapipe.tasks.python import BaseOptions, vision


def main() -> None:
    path, mode, most, *images = sys.argv[1:]
    options = vision.ObjectDetectorOptions(
        base_options=BaseOptions(model_asset_path=path),
        running_mode=vision.RunningMode[mode],
        max_results=int(most),
    )
    with vision.ObjectDetector.create_from_options(options) as detector:
        print(json.dumps([found(detector, mode, number, image) for number, image in enumerate(images)]))


def found(detector, mode, number, image):
    """Return what it finds in an image, or in a frame of a video of ten frames a second."""
    picture = mediapipe.Image(image_format=mediapipe.ImageFormat.SRGB, data=np.load(image))
    is_video = mode == "VIDEO"
    result = detector.detect_for_video(picture, 100 * number) if is_video else detector.detect(picture)
    rows = []
    for each in result.detections:
        box, best = each.bounding_box, each.categories[0]
        corners = [box.origin_y, box.origin_x, box.origin_y + box.height, box.origin_x + box.width]
        rows.append([best.category_name, best.score, corners])
    return rows


if __name__ == "__main__":
    main()
