"""Two-stage detectors of TensorFlow 1: their sample configs, and the names in their checkpoints.

`data/two_stage/tensorflow_1_names.json.gz` has the variables of samples, and those that a classifier fills.
"""

import gzip
import json

import pytest

from detection_core.builders.detector import build_detector
from detection_core.config.check import find_problems, find_refused
from detection_core.config.legacy.conversion import convert_config
from detection_core.config.load import parse_pipeline_config
from detection_core.config.paths.overrides import apply_overrides
from detection_core.config.text.text_proto import format_message
from detection_core.detectors.checkpoint_names import FineTuneOptions
from detection_core.errors import ConfigError
from detection_core.families.faster_rcnn.checkpoint_names import checkpoint_names
from detection_core.families.faster_rcnn.scoped_names import scoped_variables
from detection_core.zoo.networks import find_kind
from tests.support.golden_networks import DATA

INCEPTION_RESNET = "faster_rcnn_inception_resnet_v2"
CONTEXT = "model.faster_rcnn.context_config"
PREDICTOR = "model.faster_rcnn.second_stage_box_predictor"
BOX_HEAD = f"{PREDICTOR}.mask_rcnn_box_predictor"
# Sample -> extractor, stride, classes, side of the masks (0: none).
BUILT = {
    "faster_rcnn_inception_resnet_v2_atrous_coco": (INCEPTION_RESNET, 8, 90, 0),
    "faster_rcnn_inception_resnet_v2_atrous_cosine_lr_coco": (INCEPTION_RESNET, 8, 90, 0),
    "faster_rcnn_inception_resnet_v2_atrous_oid": (INCEPTION_RESNET, 8, 546, 0),
    "faster_rcnn_inception_resnet_v2_atrous_oid_v4": (INCEPTION_RESNET, 8, 601, 0),
    "faster_rcnn_inception_resnet_v2_atrous_pets": (INCEPTION_RESNET, 8, 37, 0),
    "faster_rcnn_inception_v2_coco": ("faster_rcnn_inception_v2", 16, 90, 0),
    "faster_rcnn_inception_v2_pets": ("faster_rcnn_inception_v2", 16, 37, 0),
    "faster_rcnn_resnet101_atrous_coco": ("faster_rcnn_resnet101", 8, 90, 0),
    "faster_rcnn_resnet101_ava_v2.1": ("faster_rcnn_resnet101", 16, 80, 0),
    "faster_rcnn_resnet101_coco": ("faster_rcnn_resnet101", 16, 90, 0),
    "faster_rcnn_resnet101_fgvc": ("faster_rcnn_resnet101", 16, 2854, 0),
    "faster_rcnn_resnet101_kitti": ("faster_rcnn_resnet101", 16, 2, 0),
    "faster_rcnn_resnet101_pets": ("faster_rcnn_resnet101", 16, 37, 0),
    "faster_rcnn_resnet101_voc07": ("faster_rcnn_resnet101", 16, 20, 0),
    "faster_rcnn_resnet152_coco": ("faster_rcnn_resnet152", 16, 90, 0),
    "faster_rcnn_resnet152_pets": ("faster_rcnn_resnet152", 16, 37, 0),
    "faster_rcnn_resnet50_coco": ("faster_rcnn_resnet50", 16, 90, 0),
    "faster_rcnn_resnet50_fgvc": ("faster_rcnn_resnet50", 16, 2854, 0),
    "faster_rcnn_resnet50_pets": ("faster_rcnn_resnet50", 16, 37, 0),
    "mask_rcnn_inception_resnet_v2_atrous_coco": (INCEPTION_RESNET, 8, 90, 33),
    "mask_rcnn_inception_v2_coco": ("faster_rcnn_inception_v2", 16, 90, 15),
    "mask_rcnn_resnet101_atrous_coco": ("faster_rcnn_resnet101", 8, 90, 33),
    "mask_rcnn_resnet101_pets": ("faster_rcnn_resnet101", 16, 37, 33),
    "mask_rcnn_resnet50_atrous_coco": ("faster_rcnn_resnet50", 8, 90, 33),
}
# Sample -> extractor, what else it has, and why it is refused.
REFUSED = {
    "context_rcnn_resnet101_snapshot_serengeti": (
        "faster_rcnn_resnet101",
        {CONTEXT: "{}"},
        "features of other images",
    ),
    "context_rcnn_resnet101_snapshot_serengeti_sync": (
        "faster_rcnn_resnet101",
        {CONTEXT: "{}"},
        "features of other images",
    ),
    "faster_rcnn_nas_coco": ("faster_rcnn_nas", {}, "found 'faster_rcnn_nas', which has no counterpart"),
    "rfcn_resnet101_coco": (
        "faster_rcnn_resnet101",
        {PREDICTOR: "{ rfcn_box_predictor {} }"},
        "R-FCN exists in TensorFlow 1 only",
    ),
    "rfcn_resnet101_pets": (
        "faster_rcnn_resnet101",
        {PREDICTOR: "{ rfcn_box_predictor {} }"},
        "R-FCN exists in TensorFlow 1 only",
    ),
}
_RESIZER = "keep_aspect_ratio_resizer { min_dimension: 600 max_dimension: 1024 }"
NAMES = json.loads(gzip.decompress((DATA / "two_stage" / "tensorflow_1_names.json.gz").read_bytes()))
QUICK = "mask_rcnn_inception_v2_coco"


def _config(extractor, stride=16, classes=90, masks=0):
    """A sample as TensorFlow 1 wrote it."""
    values = {"resizer": _RESIZER, "extractor_options": f"first_stage_features_stride: {stride}"}
    if extractor == INCEPTION_RESNET:
        values["pooling"] = "$unpooled"
    kind = find_kind("mask_rcnn" if masks else "faster_rcnn_gpu")
    config = parse_pipeline_config(kind.fill(classes, extractor=extractor, height=1024, width=1024, **values))
    sides = {f"{BOX_HEAD}.mask_height": masks, f"{BOX_HEAD}.mask_width": masks}
    if masks == 15:
        sides[f"{BOX_HEAD}.mask_prediction_num_conv_layers"] = 2
    return apply_overrides(config, sides if masks else {})


def _converted(config):
    converted = convert_config(format_message(config))
    return parse_pipeline_config(converted.text), converted


def _problems(config):
    return [problem.message for problem in [*find_problems(config), *find_refused(config)]]


def test_samples_are_built_after_conversion_or_refused_with_the_reason():
    failures = []
    for name, row in BUILT.items():
        config, converted = _converted(_config(*row))
        extractor, stride = row[:2]
        kept = extractor == "faster_rcnn_inception_v2"
        found = config.model.faster_rcnn.feature_extractor
        # A checkpoint of its time is one of version 1, by default.
        config.train_config.fine_tune_checkpoint = "model.ckpt"
        if found.type != (extractor if kept else f"{extractor}_keras") or _problems(config):
            failures.append((name, found.type, _problems(config)))
        assert found.first_stage_features_stride == stride
        assert any("in the second stage" in note for note in converted.notes) != kept
    for name, (extractor, changes, reason) in REFUSED.items():
        try:
            found = _problems(_converted(apply_overrides(_config(extractor), changes))[0])
        except ConfigError as error:
            found = [error.message]
        if not any(reason in message for message in found):
            failures.append((name, found))
    assert not failures and len(BUILT) + len(REFUSED) == 29


@pytest.mark.parametrize(
    "name",
    [
        name if name == QUICK else pytest.param(name, marks=[pytest.mark.zoo, pytest.mark.slow])
        for name in NAMES
    ],
)
def test_variables_have_the_names_and_shapes_of_tensorflow_1(name):
    config, _ = _converted(_config(*BUILT[name]))
    extractor = config.model.faster_rcnn.feature_extractor.type
    model = build_detector(config.model, seed=None)
    wanted = NAMES[name]["variables"]
    found = {key: list(variable.shape) for key, variable in scoped_variables(model, extractor).items()}
    # Theirs built the last block in both stages, and used that of the second.
    unused = {
        key for key in wanted if key.startswith("FirstStageFeatureExtractor/resnet") and "/block4/" in key
    }
    assert found == {key: shape for key, shape in wanted.items() if key not in unused}
    assert len(found) == len(model.variables)
    kinds = checkpoint_names().name_based.kinds
    options = FineTuneOptions(kind="classification", named=True, extractor=extractor)
    classifier = [names for _, (names,) in kinds["classification"](model, options)]
    assert sorted(classifier) == NAMES[name]["classification"]
    features = [names for _, (names,) in kinds["detection"](model, options)]
    assert len(features) == len(classifier) and set(features) <= set(found)
