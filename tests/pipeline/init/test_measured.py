from detection_core.config.load import load_pipeline_config
from detection_core.config.paths.overrides import apply_overrides
from detection_core.tasks.describe import describe
from pipeline.init.measured import measure
from tests.support.configs import PYRAMID


def test_a_network_is_built_and_timed():
    config = apply_overrides(
        load_pipeline_config(PYRAMID),
        {
            "model.ssd.num_classes": "unset",
            "model.ssd.image_resizer": {"fixed_shape_resizer": {"height": 64, "width": 96}},
        },
    )
    found = measure(config, classes=4)
    described = describe(apply_overrides(config, {"model.ssd.num_classes": 4}))
    assert (found.parameters, found.multiply_adds) == (described.parameters, described.flops // 2)
    assert 0 < found.milliseconds < 60_000
