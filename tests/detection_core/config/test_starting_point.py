from detection_core.config.load import parse_pipeline_config
from detection_core.config.starting_point import fine_tune_checkpoint
from tests.support.cases import config_refused
from tests.support.configs import PYRAMID, TWO_STAGE, changed


def _starting(path, start, **changes):
    return fine_tune_checkpoint(changed(path, {"train_config.fine_tune_checkpoint": start, **changes}))


def test_names_are_as_they_stand_and_imagenet_is_of_the_config_s_backbone():
    for start in ("", "weights/model.ckpt", "zoo:efficientdet_d0_coco17_tpu-32"):
        assert _starting(PYRAMID, start) == start
    multiplier = {"model.ssd.feature_extractor.depth_multiplier": 1.0}
    assert _starting(PYRAMID, "imagenet", **multiplier) == "imagenet:mobilenet_v2"
    config = parse_pipeline_config('train_config { fine_tune_checkpoint: "imagenet" }')
    assert fine_tune_checkpoint(config) == "imagenet"  # without a model nothing is known of it
    config_refused("published trained on ImageNet", _starting, TWO_STAGE, "imagenet")
