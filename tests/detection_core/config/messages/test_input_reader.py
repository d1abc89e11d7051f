from tests.support.cases import cases
from tests.support.configs import PYRAMID, assert_problems

# Config, what is changed in it, and the paths of the problems that must be found, no more and no fewer.
WRONG = [
    (
        PYRAMID,
        {"train_input_reader.sample_from_datasets_weights": [0.5, -0.5]},
        {
            "train_input_reader.sample_from_datasets_weights",
            "train_input_reader.sample_from_datasets_weights[1]",
        },
    ),
    (
        PYRAMID,
        {"eval_input_reader[0].sample_1_of_n_examples": 0},
        {"eval_input_reader[0].sample_1_of_n_examples"},
    ),
    (
        PYRAMID,
        {"train_input_reader.decode_at_reduced_size": True, "train_input_reader.load_instance_masks": True},
        {"train_input_reader.decode_at_reduced_size"},
    ),
]


@cases(*WRONG)
def test_a_problem_is_found_where_it_is_and_nowhere_else(*, path, changes, expected):
    assert_problems(path, changes, expected)
