import dataclasses

from detection_core.config.automl.defaults import MODELS
from detection_core.config.check import find_problems
from detection_core.config.load import parse_pipeline_config
from detection_core.config.messages.efficientdet import input_size, settings_of
from detection_core.config.messages.feature_nodes import Node
from detection_core.protos.efficientdet_pb2 import EfficientDet
from tests.support.cases import cases
from tests.support.efficientdet_goldens import message, read_json

HPARAMS = read_json("hparams")
OVERRIDES = HPARAMS["model_overrides"]


def _problems(text):
    config = parse_pipeline_config(f"model {{ efficientdet {{ {text} }} }}")
    return {p.path.removeprefix("model.efficientdet."): p.message for p in find_problems(config)}


@cases(*OVERRIDES)
def test_settings_of_a_model_are_the_reference_s(*, name):
    theirs = {key: entry["value"] for key, entry in HPARAMS["defaults"].items()} | OVERRIDES[name]
    settings = settings_of(EfficientDet(name=name, num_classes=90))
    theirs["image_size"] = (theirs["image_size"],) * 2
    theirs["fpn_weight_method"] = theirs["fpn_weight_method"] or "fastattn"
    for field in dataclasses.fields(settings):
        expected, found = theirs.get(field.name), getattr(settings, field.name)
        if field.name not in theirs:
            continue
        if expected is None:
            assert not found, field.name
        elif isinstance(found, tuple) and isinstance(expected, float):
            assert set(found) == {expected}
        else:
            assert found == (tuple(expected) if isinstance(expected, list) else expected), field.name


def test_unset_fields_are_the_named_model_s_and_set_ones_take_their_place():
    settings = settings_of(message("efficientdet-lite0"))
    assert settings.anchor_scale == (3.0,) * 5 and settings.mean_rgb == (127.0,) * 3
    assert input_size(EfficientDet(name="efficientdet-lite2")) == (448, 448)
    assert input_size(EfficientDet(name="efficientdet-d9")) is None
    for name in MODELS:
        assert _problems(f'name: "{name}" num_classes: 2') == {}
    given = message(size=(128, 256), max_level=6, fpn_name="qufpn", mean_rgb=[100.0])
    given.fpn_nodes.add(feat_level=3, inputs_offsets=[0, 1])
    given.anchor_shapes.add(width_factor=2.0, height_factor=0.5)
    settings = settings_of(given)
    assert settings.nodes == (Node(3, (0, 1)),)
    assert (settings.image_size, settings.mean_rgb) == ((128, 256), (100.0,) * 3)
    assert (settings.anchors_per_location, list(settings.levels)) == (3, [3, 4, 5, 6])
    for case in HPARAMS["feat_sizes"]:
        settings, sizes = settings_of(message(max_level=case["max_level"])), case["sizes_hw"]
        assert [list(shape) for shape in settings.map_shapes(sizes[0])] == sizes[3:], case


WRONG = {
    'act_type: "gelu"': ("act_type", "hswish"),
    'fpn_weight_method: "mean"': ("fpn_weight_method", "fastattn"),
    "mean_rgb: 1 mean_rgb: 2": ("mean_rgb", "give 1 or 3"),
    "stddev_rgb: 0": ("stddev_rgb[0]", "above 0"),
    "min_level: 6": ("min_level", "found 6 and 7"),
    "max_level: 3": ("min_level", "found 3 and 3"),
    "anchor_scale: 1 anchor_scale: 2": ("anchor_scale", "5 levels"),
    'var_freeze_expr: "("': ("var_freeze_expr", "regular expression"),
    'nms_configs { method: "diou" }': ("nms_configs.method", "gaussian"),
    'nms_configs { mode: "all" }': ("nms_configs.mode", "per_class"),
    "fpn_nodes { feat_level: 9 inputs_offsets: 0 }": ("fpn_nodes[0].feat_level", "found 9"),
    "image_resizer { fixed_shape_resizer { height: 64 width: 96 } }": ("image_resizer", "1 x 2 and 1 x 1"),
    'heads: "segmentation"': ("heads", "add it"),
    "image_resizer { keep_aspect_ratio_resizer {} }": ("image_resizer", "one output size"),
}
LITE = 'name: "efficientdet-lite0" heads: "object_detection" heads: "segmentation"'


@cases(
    *((f'name: "efficientdet-d0" {text}', *found) for text, found in WRONG.items()),
    ("num_classes: 2", "name", "efficientdet-d0"),
    ('name: "efficientdet-d8"', "name", "found 'efficientdet-d8'"),
    (LITE, "image_resizer", "multiples of 128"),
)
def test_what_is_wrong_is_found(*, text, path, words):
    found = _problems(text)
    assert words in found[path], found
