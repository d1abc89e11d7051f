from tests.support import configs
from tests.support.configs import LAYERS, PYRAMID, assert_each_refused, assert_fine, assert_problems

OPTIMIZER = "train_config.optimizer"
COSINE = f"{OPTIMIZER}.momentum_optimizer.learning_rate.cosine_decay_learning_rate"
SCHEDULE = f"{OPTIMIZER}.rms_prop_optimizer.learning_rate.manual_step_learning_rate.schedule"
EXPONENTIAL = f"{OPTIMIZER}.adam_optimizer.learning_rate.exponential_decay_learning_rate"


def test_a_problem_is_found_where_it_is_and_what_is_unusual_passes():
    assert_each_refused(PYRAMID, {OPTIMIZER: {}, f"{COSINE}.warmup_learning_rate": 0.5})
    adam = f"{OPTIMIZER}.adam_optimizer.learning_rate"
    assert_problems(PYRAMID, {OPTIMIZER: "{ adam_optimizer {} }"}, {adam})
    assert_problems(PYRAMID, {f"{COSINE}.total_steps": 99}, {f"{COSINE}.warmup_steps"})
    rates = {f"{COSINE}.learning_rate_base", f"{COSINE}.warmup_learning_rate"}
    assert_problems(PYRAMID, {f"{COSINE}.learning_rate_base": -1}, rates)
    steps = {f"{SCHEDULE}[0].step": 0, f"{SCHEDULE}[1].step": 1000, f"{SCHEDULE}[1].learning_rate": -0.5}
    assert_each_refused(LAYERS, {SCHEDULE: "[]", **steps})
    wrong = {f"{EXPONENTIAL}.min_learning_rate": 1, f"{EXPONENTIAL}.decay_steps": 0}
    assert_each_refused(configs.TWO_STAGE, wrong)
    assert_fine(PYRAMID, {f"{COSINE}.hold_base_rate_steps": 1400})  # a plateau may last to the end
    assert_fine(PYRAMID, {f"{COSINE}.warmup_steps": 0, f"{COSINE}.warmup_learning_rate": 5})
