import pytest

from detection_core.artifacts.coco_names import MAP
from detection_core.builders.validation_plan import build_validation
from detection_core.config.load import parse_pipeline_config
from detection_core.config.paths.overrides import apply_overrides
from detection_core.errors import ConfigError
from tests.support.tiny_training import config_text


def build(**fields):
    text = config_text().replace("train_config {", "eval_input_reader { }\ntrain_config {")
    config = apply_overrides(parse_pipeline_config(text), fields)
    return build_validation(config, checkpoint_every=50)


def test_an_empty_block_validates_with_each_checkpoint_by_coco_s_map():
    assert build() is None
    plan = build(**{"train_config.validation": {}})
    assert (plan.options.every_steps, plan.options.every_minutes) == (50, 0)
    assert plan.options.objective == {MAP: 1.0}
    assert (plan.options.keep_best, plan.options.patience, plan.max_images) == (1, 0, 0)
    assert plan.writes_best and not plan.options.averaged
    plan = build(**{"eval_config.eval_interval_secs": 90})  # an old field
    assert (plan.options.every_steps, plan.options.every_minutes) == (0, 1.5)
    both = {"eval_config.eval_interval_secs": 90, "train_config.validation.every_steps": 10}
    assert (build(**both).options.every_steps, build(**both).options.every_minutes) == (10, 0)
    config = parse_pipeline_config(config_text())
    block = apply_overrides(config, {"train_config.validation.patience": 1})
    with pytest.raises(ConfigError, match="expected an eval_input_reader"):
        build_validation(block, checkpoint_every=1)
    interval = apply_overrides(config, {"eval_config.eval_interval_secs": 60})
    assert build_validation(interval, checkpoint_every=1) is None


def test_every_field_is_followed():
    block = {
        "every_steps": 7, "every_minutes": 1.5, "max_images": 9, "keep_best": 3, "patience": 4,
        "metric": [{"name": "a", "weight": 0.25}, {"name": "b"}], "min_gain": 0.125, "weights": "LAST",
    }  # fmt: skip
    plan = build(**{"train_config.validation": block, "eval_config.use_moving_averages": True})
    o = plan.options
    assert (o.every_steps, o.every_minutes, o.objective) == (7, 1.5, {"a": 0.25, "b": 1.0})
    assert (o.keep_best, o.patience, o.min_gain, o.averaged) == (3, 4, 0.125, True)
    assert plan.max_images == 9 and not plan.writes_best
