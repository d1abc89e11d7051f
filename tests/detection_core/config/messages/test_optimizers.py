from tests.support.cases import cases
from tests.support.configs import LAYERS, PYRAMID, TWO_STAGE, assert_fine, assert_problems

TRAIN = "train_config"
COSINE = f"{TRAIN}.optimizer.momentum_optimizer.learning_rate.cosine_decay_learning_rate"
MANUAL = f"{TRAIN}.optimizer.rms_prop_optimizer.learning_rate.manual_step_learning_rate"
EXPONENTIAL = f"{TRAIN}.optimizer.adam_optimizer.learning_rate.exponential_decay_learning_rate"

# Config, what is changed in it, and the paths of the problems that must be found, no more and no fewer.
WRONG = [
    (PYRAMID, {f"{TRAIN}.optimizer": {}}, {f"{TRAIN}.optimizer"}),
    (
        PYRAMID,
        {f"{TRAIN}.optimizer": "{ adam_optimizer {} }"},
        {f"{TRAIN}.optimizer.adam_optimizer.learning_rate"},
    ),
    (PYRAMID, {f"{COSINE}.total_steps": 99}, {f"{COSINE}.warmup_steps"}),
    (PYRAMID, {f"{COSINE}.warmup_learning_rate": 0.5}, {f"{COSINE}.warmup_learning_rate"}),
    (
        PYRAMID,
        {f"{COSINE}.learning_rate_base": -1},
        {f"{COSINE}.learning_rate_base", f"{COSINE}.warmup_learning_rate"},
    ),
    (LAYERS, {f"{MANUAL}.schedule": "[]"}, {f"{MANUAL}.schedule"}),
    (LAYERS, {f"{MANUAL}.schedule[0].step": 0}, {f"{MANUAL}.schedule[0].step"}),
    (LAYERS, {f"{MANUAL}.schedule[1].step": 1000}, {f"{MANUAL}.schedule[1].step"}),
    (LAYERS, {f"{MANUAL}.schedule[1].learning_rate": -0.5}, {f"{MANUAL}.schedule[1].learning_rate"}),
    (TWO_STAGE, {f"{EXPONENTIAL}.min_learning_rate": 1}, {f"{EXPONENTIAL}.min_learning_rate"}),
]


@cases(*WRONG)
def test_a_problem_is_found_where_it_is_and_nowhere_else(*, path, changes, expected):
    assert_problems(path, changes, expected)


FINE = [
    # A plateau may last to the end.
    (PYRAMID, {f"{COSINE}.hold_base_rate_steps": 1400}),
    (PYRAMID, {f"{COSINE}.warmup_steps": 0, f"{COSINE}.warmup_learning_rate": 5}),
]


@cases(*FINE)
def test_what_is_unusual_but_right_passes(*, path, changes):
    assert_fine(path, changes)
