"""The detectors of the TensorFlow 2 detection model zoo that this project builds, as facts."""

from __future__ import annotations

import dataclasses
import difflib
import math
from typing import Literal

from detection_core.errors import ConfigError, shorten

Speed = Literal["fast", "balanced", "accurate"]
SPEEDS: tuple[Speed, ...] = ("fast", "balanced", "accurate")

PUBLISHED_AT = "https://download.tensorflow.org/models/object_detection/tf2/20200711"
"""Folder of the archives, which are called after the models."""
PAGE = "https://github.com/tensorflow/models/blob/master/research/object_detection/g3doc/tf2_detection_zoo.md"
"""Where names, times and mAP are published."""
ARCHIVE_SUFFIX = ".tar.gz"
# Most parameters of a class; what has more is large.
_SIZE_CLASSES = ((8_000_000, "small"), (40_000_000, "medium"))


@dataclasses.dataclass(frozen=True, kw_only=True)
class PublishedModel:
    """A detector of the zoo, trained on COCO 2017 with class numbers up to 90.

    Attributes:
        name: as published: the archive and the folder in it are called so.
        title: as the zoo's page calls it.
        extractor: its `feature_extractor.type`.
        input_side: height and width of the network's input, pixels.
        coco_map: published mAP on COCO 2017 val, percent.
        published_ms: published time for an image on the zoo's own machine, milliseconds.
        parameters: numbers in all variables of the network that is built here, moving statistics included;
            published EfficientDets carry parts of the classifier beside them.
        speed: rung of the ladder from fast to accurate.
        licence: of the weights and of the configuration.
    """

    name: str
    title: str
    extractor: str
    input_side: int
    coco_map: float
    published_ms: int
    parameters: int
    speed: Speed
    licence: str = "Apache-2.0"

    @property
    def archive(self) -> str:
        """Name of the archive's file."""
        return self.name + ARCHIVE_SUFFIX

    @property
    def address(self) -> str:
        """Where the archive is published."""
        return f"{PUBLISHED_AT}/{self.archive}"

    @property
    def most_bytes(self) -> int:
        """Bytes that its archive cannot exceed; it holds each parameter twice, in 4 bytes each."""
        return (64 << 20) + 16 * self.parameters

    @property
    def size_class(self) -> str:
        """Small, medium or large, by the number of parameters."""
        return next((name for most, name in _SIZE_CLASSES if self.parameters <= most), "large")


# Times and mAP are the page's. Two inputs are not the title's: the configuration
# of SSD MobileNet v2 320x320 resizes to 300, and that of EfficientDet D6 1280x1280 to 1408.
_MOBILENETS: tuple[tuple[str, str, str, int, float, int, int, Speed], ...] = (
    ("mobilenet_v2_320x320", "MobileNet v2 320x320", "mobilenet_v2", 300, 20.2, 19, 6_103_999, "fast"),
    (
        "mobilenet_v2_fpnlite_320x320",
        "MobileNet V2 FPNLite 320x320",
        "mobilenet_v2_fpn",
        320,
        22.2,
        22,
        2_667_002,
        "fast",
    ),
    (
        "mobilenet_v2_fpnlite_640x640",
        "MobileNet V2 FPNLite 640x640",
        "mobilenet_v2_fpn",
        640,
        28.2,
        39,
        2_667_002,
        "fast",
    ),
    (
        "mobilenet_v1_fpn_640x640",
        "MobileNet V1 FPN 640x640",
        "mobilenet_v1_fpn",
        640,
        29.1,
        48,
        12_125_178,
        "balanced",
    ),
)
# Layers of the ResNet, input, mAP, milliseconds, parameters.
_RETINA_NETS: tuple[tuple[int, int, float, int, int, Speed], ...] = (
    (50, 640, 34.3, 46, 32_916_218, "balanced"),
    (50, 1024, 38.3, 87, 32_916_218, "accurate"),
    (101, 640, 35.6, 57, 51_960_570, "accurate"),
    (101, 1024, 39.5, 104, 51_960_570, "accurate"),
    (152, 640, 35.4, 80, 67_650_298, "accurate"),
    (152, 1024, 39.6, 111, 67_650_298, "accurate"),
)
# Version, size in the title, input, mAP, milliseconds, parameters.
_EFFICIENT_DETS: tuple[tuple[int, int, int, float, int, int, Speed], ...] = (
    (0, 512, 512, 33.6, 39, 3_927_203, "balanced"),
    (1, 640, 640, 38.4, 54, 5_125_434, "balanced"),
    (2, 768, 768, 41.8, 67, 6_280_743, "balanced"),
    (3, 896, 896, 45.4, 95, 9_891_656, "accurate"),
    (4, 1024, 1024, 48.5, 133, 17_830_139, "accurate"),
    (5, 1280, 1280, 49.7, 222, 25_901_443, "accurate"),
    (6, 1280, 1408, 50.5, 268, 42_101_174, "accurate"),
    (7, 1536, 1536, 51.2, 325, 42_101_174, "accurate"),
)
_LARGEST_EFFICIENT_NET = 6  # EfficientDet D7 is D6 on a larger input.

_MODELS = (
    *(
        PublishedModel(
            name=f"ssd_{name}_coco17_tpu-8",
            title=f"SSD {title}",
            extractor=f"ssd_{extractor}_keras",
            input_side=side,
            coco_map=coco_map,
            published_ms=published_ms,
            parameters=parameters,
            speed=speed,
        )
        for name, title, extractor, side, coco_map, published_ms, parameters, speed in _MOBILENETS
    ),
    *(
        PublishedModel(
            name=f"ssd_resnet{layers}_v1_fpn_{side}x{side}_coco17_tpu-8",
            title=f"SSD ResNet{layers} V1 FPN {side}x{side} (RetinaNet{layers})",
            extractor=f"ssd_resnet{layers}_v1_fpn_keras",
            input_side=side,
            coco_map=coco_map,
            published_ms=published_ms,
            parameters=parameters,
            speed=speed,
        )
        for layers, side, coco_map, published_ms, parameters, speed in _RETINA_NETS
    ),
    *(
        PublishedModel(
            name=f"efficientdet_d{version}_coco17_tpu-32",
            title=f"EfficientDet D{version} {titled}x{titled}",
            extractor=f"ssd_efficientnet-b{min(version, _LARGEST_EFFICIENT_NET)}_bifpn_keras",
            input_side=side,
            coco_map=coco_map,
            published_ms=published_ms,
            parameters=parameters,
            speed=speed,
        )
        for version, titled, side, coco_map, published_ms, parameters, speed in _EFFICIENT_DETS
    ),
)
_BY_NAME = {model.name: model for model in _MODELS}


def list_models() -> tuple[PublishedModel, ...]:
    """Return the detectors that are published and built here, family by family, small ones first."""
    return _MODELS


def find_model(name: str) -> PublishedModel:
    """Return a detector by its published name.

    Raises:
        ConfigError: where there is none of that name, with the names that look like it.
    """
    found = _BY_NAME.get(name.removesuffix(ARCHIVE_SUFFIX))
    if found is not None:
        return found
    near = difflib.get_close_matches(name, _BY_NAME, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else "`detflow zoo list` shows them"
    raise ConfigError(
        f"expected the name of a detector of the model zoo that is built here, found {shorten(name)}; {hint}",
        where=f"zoo:{name}" if len(name) <= 80 else "zoo",
    )


def nearest_model(input_size: tuple[int, int], *, speed: Speed = "balanced") -> PublishedModel:
    """Return the detector of a rung whose input is nearest to a size; of equally near ones the more accurate.

    Args:
        input_size: height and width that the data ask for, pixels.
        speed: rung of the ladder.

    Raises:
        ValueError: for another rung, or a size that is none.
    """
    if speed not in SPEEDS or min(input_size) < 1:
        raise ValueError(f"expected one of {SPEEDS} and a size in pixels, found {speed!r}, {input_size}")
    side = math.sqrt(input_size[0] * input_size[1])
    rung = [model for model in _MODELS if model.speed == speed]
    return min(rung, key=lambda model: (abs(math.log(model.input_side / side)), -model.coco_map))
