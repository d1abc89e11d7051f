from tests.support.configs import PYRAMID, assert_each_refused, assert_fine, assert_problems

PATH = "model.ssd.post_processing"
NMS = f"{PATH}.batch_non_max_suppression"
CALIBRATION = f"{PATH}.calibration_config"


def test_suppression_and_calibration_fit_the_scores():
    changes = {f"{NMS}.use_class_agnostic_nms": True, f"{NMS}.max_classes_per_detection": 2}
    assert_problems(PYRAMID, changes, {f"{NMS}.max_classes_per_detection"})
    assert_each_refused(PYRAMID, {f"{NMS}.score_threshold": -0.5})
    scaler = f"{CALIBRATION}.temperature_scaling_calibration.scaler"
    pairs = f"{CALIBRATION}.class_id_function_approximations.class_id_xy_pairs_map[3]"
    unknown = "training_data_type: DATA_TYPE_UNKNOWN"
    assert_each_refused(PYRAMID, {CALIBRATION: {}, pairs: unknown, scaler: 0})
    function = f"{CALIBRATION}.function_approximation"
    assert_problems(PYRAMID, {function: {}}, {f"{function}.x_y_pairs"})
    assert_fine(PYRAMID, {scaler: 2})
