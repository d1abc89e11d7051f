from tests.support.configs import LAYERS, PYRAMID, assert_each_refused, assert_fine, assert_problems

TRAIN = "train_config"
PARTS, SCALE = f"{TRAIN}.gradient_accumulation_steps", f"{TRAIN}.initial_loss_scale"
PRECISION, STEP = f"{TRAIN}.precision", f"{TRAIN}.data_augmentation_options[0]"
SCORES, MERGED = f"{TRAIN}.use_multiclass_scores", f"{TRAIN}.merge_multiple_label_boxes"


def test_a_problem_is_found_where_it_is_and_what_fits_passes():
    assert_each_refused(PYRAMID, {f"{TRAIN}.batch_size": 0, STEP: {}, SCALE: 0, SCORES: True})
    assert_problems(PYRAMID, {"batch_size": 8, PARTS: 3}, {PARTS})
    assert_problems(PYRAMID, {PRECISION: "BFLOAT16", SCALE: 8}, {SCALE})
    loaded = {"train_input_reader.load_multiclass_scores": True}
    assert_problems(PYRAMID, {SCORES: True, MERGED: True, **loaded}, {MERGED})
    for parts in (4, 0):  # a batch is computed in equal parts
        assert_fine(PYRAMID, {"batch_size": 8, PARTS: parts})
    for precision in ("AUTO", "FLOAT16"):
        assert_fine(PYRAMID, {PRECISION: precision, SCALE: 8})
    assert_fine(LAYERS, {TRAIN: "unset"})
