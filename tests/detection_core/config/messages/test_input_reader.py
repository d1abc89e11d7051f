from tests.support.configs import PYRAMID, assert_each_refused, assert_problems

READER = "train_input_reader"


def test_a_problem_is_found_where_it_is_and_nowhere_else():
    weights, reduced = f"{READER}.sample_from_datasets_weights", f"{READER}.decode_at_reduced_size"
    assert_problems(PYRAMID, {weights: [0.5, -0.5]}, {weights, f"{weights}[1]"})
    assert_each_refused(PYRAMID, {"eval_input_reader[0].sample_1_of_n_examples": 0})
    assert_problems(PYRAMID, {reduced: True, f"{READER}.load_instance_masks": True}, {reduced})
