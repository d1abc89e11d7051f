from detection_core.config.check import check_pipeline_config
from tests.support.cases import config_refused
from tests.support.configs import PYRAMID, TWO_STAGE, changed


def test_all_problems_are_told_at_once_with_their_lines():
    config = changed(PYRAMID, {"batch_size": 0, "num_classes": 0})
    lines = {"model.ssd": 3, "train_config.batch_size": 44}
    error = config_refused("", lambda: check_pipeline_config(config, where="my.config", lines=lines))
    assert error.where == "my.config:3"
    first, second = error.message.split("\n")
    assert first.startswith("model.ssd.num_classes: expected the number of classes")
    assert second.strip().startswith("line 44: train_config.batch_size: expected")
    error = config_refused("", lambda: check_pipeline_config(config, where="my.config"))
    assert error.where == "my.config"
    # Of what is not built, nothing else is said.
    config = changed(TWO_STAGE, {"model.faster_rcnn.feature_extractor.type": "faster_rcnn_resnet50"})
    error = config_refused("two-stage detectors are not built here", check_pipeline_config, config)
    assert "feature_extractor" not in str(error)
