from tests.support.cases import cases
from tests.support.configs import LAYERS, PYRAMID, assert_fine, assert_problems

TRAIN = "train_config"
READER = "train_input_reader"

# Config, what is changed in it, and the paths of the problems that must be found, no more and no fewer.
WRONG = [
    (PYRAMID, {"batch_size": 0}, {f"{TRAIN}.batch_size"}),
    (PYRAMID, {f"{TRAIN}.data_augmentation_options[0]": {}}, {f"{TRAIN}.data_augmentation_options[0]"}),
    (
        PYRAMID,
        {"batch_size": 8, f"{TRAIN}.gradient_accumulation_steps": 3},
        {f"{TRAIN}.gradient_accumulation_steps"},
    ),
    (PYRAMID, {f"{TRAIN}.initial_loss_scale": 0}, {f"{TRAIN}.initial_loss_scale"}),
    (
        PYRAMID,
        {f"{TRAIN}.precision": "BFLOAT16", f"{TRAIN}.initial_loss_scale": 8},
        {f"{TRAIN}.initial_loss_scale"},
    ),
    (PYRAMID, {f"{TRAIN}.use_multiclass_scores": True}, {f"{TRAIN}.use_multiclass_scores"}),
    (
        PYRAMID,
        {
            f"{TRAIN}.use_multiclass_scores": True,
            f"{TRAIN}.merge_multiple_label_boxes": True,
            f"{READER}.load_multiclass_scores": True,
        },
        {f"{TRAIN}.merge_multiple_label_boxes"},
    ),
]


@cases(*WRONG)
def test_a_problem_is_found_where_it_is_and_nowhere_else(*, path, changes, expected):
    assert_problems(path, changes, expected)


def test_a_batch_may_be_computed_in_equal_parts():
    for parts in (4, 0):
        assert_fine(PYRAMID, {"batch_size": 8, f"{TRAIN}.gradient_accumulation_steps": parts})


@cases("AUTO", "FLOAT16")
def test_a_factor_of_the_loss_is_fine_where_it_may_be_used(*, precision):
    assert_fine(PYRAMID, {f"{TRAIN}.precision": precision, f"{TRAIN}.initial_loss_scale": 8})


def test_a_config_without_training_passes():
    assert_fine(LAYERS, {"train_config": "unset"})
