from detection_core.builders.configured_model import configured_model
from detection_core.config.load import parse_pipeline_config
from detection_core.config.paths.overrides import apply_overrides
from detection_core.data.resize import FixedShapeResizer
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from tests.support.plain_backbone import PLAIN
from tests.support.tiny_training import config_text

CONFIG = parse_pipeline_config(config_text(backbone=PLAIN))


def test_the_model_of_a_config_says_what_it_is_and_builds_its_parts():
    model = configured_model(CONFIG)
    assert (model.architecture, model.extractor) == ("ssd", PLAIN)
    assert model.family.name == "ssd" and model.resizer_name == "fixed_shape_resizer"
    assert model.build_resizer() == FixedShapeResizer(height=64, width=64)
    detector = model.build(seed=None)
    assert detector.num_classes == 2
    assert PLAIN in model.describe(detector).summary()
    # Models are compared, and the rest of their configs is not.
    longer = apply_overrides(CONFIG, {"train_config.num_steps": 9})
    other = apply_overrides(CONFIG, {"model.ssd.num_classes": 3})
    assert configured_model(longer) == configured_model(CONFIG) != configured_model(other)
    model = configured_model(TrainEvalPipelineConfig())
    assert (model.architecture, model.resizer_name) == ("", "none")
