from tests.support.configs import PYRAMID, assert_fine, assert_problems

PATH = "model.ssd.post_processing"
NMS = f"{PATH}.batch_non_max_suppression"
CALIBRATION = f"{PATH}.calibration_config"


def test_a_class_of_an_anchor_that_is_suppressed_over_all_classes():
    changes = {f"{NMS}.use_class_agnostic_nms": True, f"{NMS}.max_classes_per_detection": 2}
    assert_problems(PYRAMID, changes, {f"{NMS}.max_classes_per_detection"})
    assert_problems(PYRAMID, {f"{NMS}.score_threshold": -0.5}, {f"{NMS}.score_threshold"})


def test_a_calibration_has_points():
    assert_problems(PYRAMID, {CALIBRATION: {}}, {CALIBRATION})
    function = f"{CALIBRATION}.function_approximation"
    assert_problems(PYRAMID, {function: {}}, {f"{function}.x_y_pairs"})
    classes = f"{CALIBRATION}.class_id_function_approximations"
    assert_problems(
        PYRAMID,
        {f"{classes}.class_id_xy_pairs_map[3]": "training_data_type: DATA_TYPE_UNKNOWN"},
        {f"{classes}.class_id_xy_pairs_map[3]"},
    )
    scaler = f"{CALIBRATION}.temperature_scaling_calibration.scaler"
    assert_problems(PYRAMID, {scaler: 0}, {scaler})
    assert_fine(PYRAMID, {scaler: 2})
