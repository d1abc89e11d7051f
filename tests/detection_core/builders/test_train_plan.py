import pytest

from detection_core.builders.train_plan import build_optimization, build_train_plan
from detection_core.config.load import parse_pipeline_config
from detection_core.config.paths.overrides import apply_overrides
from detection_core.training.precision import Precision
from detection_core.training.reproducible import Reproducibility
from tests.support.tiny_training import config_text

CONFIG = parse_pipeline_config(config_text(7))


def _plan(changes):
    return build_train_plan(apply_overrides(CONFIG, changes))


def test_a_plan_has_what_the_config_says():
    plan = build_train_plan(CONFIG, log_every=3, checkpoint_minutes=0.5)
    assert (plan.options.num_steps, plan.options.log_every, plan.options.checkpoint_minutes) == (7, 3, 0.5)
    assert (plan.batch_size, plan.label_map_path) == (2, "")
    assert not plan.keeps_average and not plan.writes_average
    changes = {
        "train_input_reader.label_map_path": "/data/labels.pbtxt",
        "train_config.optimizer.use_moving_average": True,
        "eval_config.use_moving_averages": True,
    }
    plan = _plan(changes)
    assert plan.label_map_path == "/data/labels.pbtxt" and plan.keeps_average and plan.writes_average


def test_precision_optimizer_and_seed_are_the_config_s():
    for asked in (None, *Precision):
        plan = _plan({"precision": "AUTO" if asked is None else asked.name})
        assert plan.precision is asked
        assert plan.options.precision is Precision.FLOAT32 and plan.options.initial_loss_scale == 2**15
        assert plan.computing_in(Precision.FLOAT16).options.precision is Precision.FLOAT16
    assert _plan({"train_config.initial_loss_scale": 64}).options.initial_loss_scale == 64
    assert build_optimization(CONFIG).average_decay == 0.0
    changes = {"train_config.optimizer.use_moving_average": True}
    assert build_optimization(apply_overrides(CONFIG, changes)).average_decay == pytest.approx(0.9999)
    assert build_train_plan(CONFIG).reproducibility == Reproducibility()
    seeded = Reproducibility(seed=5, seeds_weights=True)
    assert _plan({"train_config.seed": 5}).reproducibility == seeded
    deterministic = Reproducibility(seeds_weights=True, deterministic=True)
    assert _plan({"train_config.deterministic": True}).reproducibility == deterministic
