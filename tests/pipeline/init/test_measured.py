from detection_core.config.load import parse_pipeline_config
from detection_core.config.paths.overrides import apply_overrides
from detection_core.tasks.describe import describe
from pipeline.init.measured import measure
from tests.support.plain_backbone import PLAIN
from tests.support.tiny_training import config_text


def test_a_network_is_built_and_timed():
    config = parse_pipeline_config(config_text(backbone=PLAIN))
    config.model.ssd.ClearField("num_classes")
    found = measure(config, classes=4)
    described = describe(apply_overrides(config, {"model.ssd.num_classes": 4}))
    assert (found.parameters, found.multiply_adds) == (described.parameters, described.flops // 2)
    assert 0 < found.milliseconds < 60_000
