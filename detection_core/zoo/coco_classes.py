"""The classes of COCO 2017, which the published detectors predict."""

from collections.abc import Mapping

# "80 object categories", https://cocodataset.org; ten of the 90 planned ones were never annotated.
# fmt: off
_NAMES = (
    "person", "bicycle", "car", "motorcycle", "airplane", "bus", "train", "truck", "boat", "traffic light",
    "fire hydrant", "stop sign", "parking meter", "bench", "bird", "cat", "dog", "horse", "sheep", "cow",
    "elephant", "bear", "zebra", "giraffe", "backpack", "umbrella", "handbag", "tie", "suitcase", "frisbee",
    "skis", "snowboard", "sports ball", "kite", "baseball bat", "baseball glove", "skateboard", "surfboard",
    "tennis racket", "bottle", "wine glass", "cup", "fork", "knife", "spoon", "bowl", "banana", "apple",
    "sandwich", "orange", "broccoli", "carrot", "hot dog", "pizza", "donut", "cake", "chair", "couch",
    "potted plant", "bed", "dining table", "toilet", "tv", "laptop", "mouse", "remote", "keyboard",
    "cell phone", "microwave", "oven", "toaster", "sink", "refrigerator", "book", "clock", "vase",
    "scissors", "teddy bear", "hair drier", "toothbrush",
)
# fmt: on
_NEVER_ANNOTATED = {12, 26, 29, 30, 45, 66, 68, 69, 71, 83}
_IDS = (number for number in range(1, 91) if number not in _NEVER_ANNOTATED)

COCO_CLASSES: Mapping[int, str] = dict(zip(_IDS, _NAMES, strict=True))
"""Id to name; the heads have an output for each id up to 90."""
