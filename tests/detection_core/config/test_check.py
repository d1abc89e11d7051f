"""The check of a whole config."""

import pytest
from hypothesis import given, settings

from detection_core.config.check import check_pipeline_config
from detection_core.config.load import load_pipeline_config
from detection_core.config.paths.overrides import apply_overrides
from detection_core.errors import ConfigError
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from tests.support.configs import PYRAMID, TWO_STAGE
from tests.support.random_messages import messages


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


@settings(max_examples=60, deadline=None)
@given(messages(TrainEvalPipelineConfig.DESCRIPTOR))
def test_any_config_passes_or_is_one_error(message):
    try:
        check_pipeline_config(message)
    except ConfigError as error:
        assert error.message


def test_nothing_is_said_about_what_lies_inside_a_refused_message():
    config = apply_overrides(
        load_pipeline_config(TWO_STAGE), {"model.faster_rcnn.feature_extractor.type": "faster_rcnn_resnet50"}
    )
    with pytest.raises(ConfigError, match="two-stage detectors are not built here") as caught:
        check_pipeline_config(config)
    assert "feature_extractor" not in str(caught.value)
