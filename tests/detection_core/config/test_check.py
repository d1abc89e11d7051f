"""The check of a whole config."""

import pytest

from detection_core.config.check import check_pipeline_config
from detection_core.config.load import load_pipeline_config
from detection_core.config.paths.overrides import apply_overrides
from detection_core.errors import ConfigError
from tests.support.configs import PYRAMID, TWO_STAGE


def test_all_problems_are_told_at_once_with_their_lines():
    config = apply_overrides(load_pipeline_config(PYRAMID), {"batch_size": 0, "num_classes": 0})
    lines = {"model.ssd": 3, "train_config.batch_size": 44}
    with pytest.raises(ConfigError) as caught:
        check_pipeline_config(config, where="my.config", lines=lines)
    assert caught.value.where == "my.config:3"
    first, second = caught.value.message.split("\n")
    assert first.startswith("model.ssd.num_classes: expected the number of classes")
    assert second.strip().startswith("line 44: train_config.batch_size: expected")
    with pytest.raises(ConfigError) as caught:
        check_pipeline_config(config, where="my.config")
    assert caught.value.where == "my.config"
    extractor = {"model.faster_rcnn.feature_extractor.type": "faster_rcnn_resnet50"}
    config = apply_overrides(load_pipeline_config(TWO_STAGE), extractor)
    with pytest.raises(ConfigError, match="two-stage detectors are not built here") as caught:
        check_pipeline_config(config)
    assert "feature_extractor" not in str(caught.value)
