import dataclasses

from detection_core.config.automl.comparison import check_made_with, is_efficientdet
from detection_core.config.automl.translation import translate
from detection_core.config.automl.typed_values import load_hyperparameters
from detection_core.config.pipeline_config import PipelineConfig
from tests.support.cases import cases, config_refused

MODEL = "efficientdet-lite0"
HPARAMS = "num_classes=2,image_size=64,fpn_cell_repeats=1,nms_configs.score_thresh=0.2"
CONFIG = translate(MODEL, HPARAMS).config


def test_what_a_detector_was_made_with_is_accepted():
    """The training's, and all of a config's at once, too, as its `as_dict()` gives them."""
    check_made_with(CONFIG, {"num_classes": 2, "image_size": "64x64", "learning_rate": 1})
    check_made_with(CONFIG, {"nms_configs": {"score_thresh": 0.2}}, MODEL)
    check_made_with(CONFIG, dataclasses.asdict(load_hyperparameters(MODEL, HPARAMS).values), MODEL)
    assert is_efficientdet(CONFIG) and not is_efficientdet(PipelineConfig())


@cases(
    ({"num_classes": 90}, "num_classes: expected what the detector was made with, 2, found 90"),
    ({"image_size": 512}, r"image_size: .*\(64, 64\), found \(512, 512\)"),
    ({"nms_configs": {"score_thresh": 0.4}}, "nms_configs: expected"),
    ({"aspect_ratios": [1.0, 3.0, 0.3]}, "aspect_ratios: expected"),
    ({"no_such": 1}, "no_such"),
)
def test_another_is_refused_by_its_name(*, changed, found):
    config_refused(found, lambda: check_made_with(CONFIG, changed, where="model_params"))
