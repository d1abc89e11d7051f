"""MediaPipe's ObjectDetector loads our files and finds what we find; `make test-mediapipe`.

MediaPipe has a separate environment; DETFLOW_MEDIAPIPE is its Python.
"""

import functools
import itertools
import json
import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from detection_core.allowed_values import TFLITE_FORMS
from detection_core.artifacts.quantization import QuantizationOptions
from detection_core.artifacts.tflite_metadata import TFLiteDescription
from detection_core.builders.detector import configured_model
from detection_core.config.load import parse_pipeline_config
from detection_core.config.model_fields import with_classes
from detection_core.config.paths.overrides import apply_overrides
from detection_core.detectors.family import TFLiteOutputOptions, model_message
from detection_core.evaluation import tflite_runner
from detection_core.evaluation.tflite_runner import TFLiteRunner, suppressed_heads
from detection_core.exporters.tflite import Conversion
from detection_core.exporters.tflite_description import add_description
from detection_core.exporters.tflite_formats import FORMATS
from detection_core.ops.detection_post_process import decoded
from detection_core.structures import Instances
from detection_core.zoo.networks import find_network

PYTHON = os.environ.get("DETFLOW_MEDIAPIPE", "")
pytestmark = [
    pytest.mark.mediapipe,
    pytest.mark.skipif(not PYTHON, reason="DETFLOW_MEDIAPIPE names no Python that has mediapipe"),
]
LABELS = ("circle", "square", "cross")
SIDE, IMAGES = 128, 3
# Files give more than MediaPipe is asked for: at the list's end it is equal scores that decide.
ROWS, ASKED = 40, 20
# Of scores.
TOLERANCES = {"float32": 0.001, "int8": 0.02}
# Far less than a step of 8 bits, more than rounding makes of a float32.
TIE = 1e-5
# Channels normalised alike and each by its own numbers, of both families.
NETWORKS = (
    "ssd_mobilenet_v2_fpnlite_320x320_coco17_tpu-8",
    "ssd_mobilenet_v2_320x320_coco17_tpu-8",
    "ssd_mobilenet_v1_fpn_640x640_coco17_tpu-8",
    "ssd_resnet50_v1_fpn_640x640_coco17_tpu-8",
    "efficientdet_d0_coco17_tpu-32",
    "efficientdet-lite0",
    "efficientdet-d0",
)
# Channels of the last layers: 6 or 9 anchors, with codes or classes.
PREDICTED = (18, 24, 27, 36)


def detector(name):
    """A detector with random weights whose scores differ from anchor to anchor, and its config."""
    config = parse_pipeline_config(find_network(name).text())
    arm = model_message(config.model)[1]
    size = {"fixed_shape_resizer": {"height": SIDE, "width": SIDE}}
    config = with_classes(apply_overrides(config, {f"{arm}.image_resizer": size}), len(LABELS))
    model = configured_model(config).build(seed=0)
    (network,) = model.networks.values()
    random = np.random.default_rng(0)
    for variable in network.trainable_variables:
        if "kernel" in variable.name:
            spread = np.sqrt(2.0 / max(1, np.prod(variable.shape[:-1])))
            if "depthwise" in variable.name:
                spread = np.sqrt(2.0 / np.prod(variable.shape[:2]))
            elif variable.shape[-1] in PREDICTED:  # scores are to differ, and boxes to lie in the image
                spread *= 0.1
            variable.assign(random.normal(0, spread, variable.shape))
    spread_scores(model, network)
    return model, config


def spread_scores(model, network):
    """Scale the class heads so that logits differ by about 1: in 256 steps from 0 on, few are equal then."""
    _, logits = network(model.preprocess(tf.constant(pictures().astype(np.float32))), training=False)
    for variable in network.trainable_variables:
        if re.match(r"class_head(_pointwise|_\d+)?/kernel", variable.name):
            variable.assign(variable / np.std(logits))


def pictures():
    """Coloured rectangles on noise, uint8 [N, H, W, 3]."""
    random = np.random.default_rng(1)
    images = random.integers(60, 190, (IMAGES, SIDE, SIDE, 3)).astype(np.uint8)
    for image in images:
        for _ in range(3):
            y, x = random.integers(0, SIDE - 48, 2)
            height, width = random.integers(16, 48, 2)
            image[y : y + height, x : x + width] = random.integers(0, 256, 3)
    return images


@pytest.fixture(scope="module", params=NETWORKS)
def files(request, tmp_path_factory):
    """Format and form to path of a file with our metadata."""
    folder = tmp_path_factory.mktemp("files")
    model, config = detector(request.param)
    family = configured_model(config).family
    rewritten = family.require_quantization().rewrite(model, QuantizationOptions(delay=0), None)
    rewritten.calibrate([tf.constant(pictures().astype(np.float32))])
    mean, std = family.require_tflite().normalisation(model)
    described = TFLiteDescription(name=request.param, mean=mean, std=std, labels=LABELS)
    tflite, paths = family.require_tflite(), {}
    kinds = (("float32", model), ("int8", rewritten.model))
    limits = {"max_detections": ROWS, "classes_per_detection": 1, "use_regular_nms": False}
    for (name, source), form in itertools.product(kinds, TFLITE_FORMS):
        outputs = TFLiteOutputOptions(form=form, **limits)
        function = tflite.function(source, config, outputs, name == "int8")
        decoding = tflite.decoding(source, config, outputs) if form == "headless" else None
        paths[name, form] = folder / f"{name}_{form}.tflite"
        content = FORMATS[name].convert(Conversion(function=function))
        content = add_description(content, described, decoding)
        # MediaPipe knows its own limits only: those of a file without ours.
        paths[name, form].write_bytes(content.replace(b"post_process.json", b"post_process.text"))
    return paths


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    paths = [folder / f"{number}.npy" for number in range(IMAGES)]
    for path, image in zip(paths, pictures(), strict=True):
        np.save(path, image)
    return paths


@pytest.mark.parametrize(
    ("form", "mode"),
    [("post_process", "IMAGE"), ("post_process", "VIDEO"), ("plain_nms", "IMAGE"), ("headless", "IMAGE")],
)
@pytest.mark.parametrize("name", TOLERANCES)
def test_mediapipe_finds_the_boxes_that_we_find(files, images, monkeypatch, name, form, mode):
    file = str(files[name, form])
    program = [PYTHON, str(Path(__file__).with_name("detect.py"))]
    command = [*program, file, mode, str(ASKED), *map(str, images)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    ours = TFLiteRunner(file)
    for rows, image in zip(json.loads(done.stdout.splitlines()[-1]), pictures(), strict=True):
        # Its sort leaves open which of equal scores comes first, and so suppresses the other.
        suppress = functools.partial(suppressed_with_ties_of, rows)
        monkeypatch.setattr(tflite_runner, "suppressed_heads", suppress)
        expected = ours(image)
        assert len(rows) >= 0.9 * min(ASKED, len(expected.scores)) > 0  # it leaves some boxes out
        agreeing = [alike(row, expected, TOLERANCES[name]).any() for row in rows]
        assert np.mean(agreeing) >= 0.9, rows


def suppressed_with_ties_of(rows, codes, raw_scores, decoding):
    """Suppress heads as ever, but let an anchor that is in MediaPipe's rows win over another of its score."""
    scores = 1 / (1 + np.exp(-raw_scores)) if decoding.sigmoid else raw_scores
    boxes = np.clip(decoded(codes, np.array(decoding.anchors, np.float32), decoding.post_process), 0.0, 1.0)
    best, classes = scores.max(axis=1), scores.argmax(axis=1)
    every = Instances(source_id="", boxes=boxes, scores=best, classes=classes)
    listed = np.any([alike(row, every, TIE) for row in rows], axis=0)
    return suppressed_heads(codes, raw_scores + np.float32(TIE) * listed[:, None], decoding)


def alike(row, found, tolerance):
    """Tell which detections are this one: class, score, and box within MediaPipe's whole pixels, bool [D].

    A box that begins outside of the image is moved into it there, with its whole width and height, so that
    where it ends says nothing.
    """
    label, score, box = row
    begins_inside = np.tile(found.boxes[:, :2] > 0, 2)
    off = np.abs(found.boxes * SIDE - np.clip(box, 0, SIDE)) * begins_inside
    near, as_sure = off.max(axis=1) <= 2.0, np.abs(found.scores - score) < tolerance
    return near & as_sure & (found.classes == LABELS.index(label))
