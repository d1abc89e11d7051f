from tests.support.configs import LAYERS, PYRAMID, assert_each_refused, assert_problems

SSD = "model.ssd"


def test_losses_fit_the_coder_and_exclude_each_other():
    changes = {f"{SSD}.num_classes": 2, f"{SSD}.explicit_background_class": True}
    assert_problems(LAYERS, changes, {f"{SSD}.explicit_background_class"})
    changes |= {f"{SSD}.num_classes": 1, f"{SSD}.add_background_class": False}
    assert_problems(LAYERS, changes, {f"{SSD}.num_classes"})
    changes = {
        f"{SSD}.box_coder.keypoint_box_coder.num_keypoints": 2,
        f"{SSD}.box_predictor.convolutional_box_predictor.box_code_size": 8,
        "train_input_reader.num_keypoints": 2,
        f"{SSD}.loss.localization_loss": {"weighted_giou": {}},
    }
    assert_problems(LAYERS, changes, {f"{SSD}.loss.localization_loss"})
    sampler = f"{SSD}.loss.random_example_sampler"
    assert_each_refused(LAYERS, {sampler: {}})
    assert_each_refused(PYRAMID, {f"{sampler}.positive_sample_fraction": 0})
