from detection_core.config.check import check_message
from detection_core.protos.preprocessor_pb2 import PreprocessingStep
from tests.support.cases import cases, config_refused
from tests.support.configs import parsed


@cases(
    ("mosaic { probability: 1.5 }", "mosaic.probability"),
    ("mosaic { height: 1 }", "mosaic.height"),
    ("mosaic { min_fraction: 0.5 }", "mosaic.min_fraction"),
    ("mosaic { per_channel_pad_value: 3 }", "mosaic.per_channel_pad_value"),
    ("mosaic { per_channel_pad_value: [1, 2, 300] }", "mosaic.per_channel_pad_value"),
    ("mixup { alpha: 0 }", "mixup.alpha"),
    ("copy_paste { object_probability: -1 }", "copy_paste.object_probability"),
    ("copy_paste { scale_min: 2 }", "copy_paste.scale_max"),
    ("large_scale_jitter { scale_min: 1 scale_max: 0.5 }", "large_scale_jitter.scale_max"),
    ("large_scale_jitter { height: 0 }", "large_scale_jitter.height"),
)
def test_wrong_values_are_named(*, text, field):
    caught = config_refused("", check_message, parsed(PreprocessingStep, text), "step")
    assert f"step.{field}" in str(caught)


def test_defaults_are_accepted():
    for arm in ("mosaic", "mixup", "copy_paste", "large_scale_jitter"):
        check_message(parsed(PreprocessingStep, f"{arm} {{}}"), "step")
