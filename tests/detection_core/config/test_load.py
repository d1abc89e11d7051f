from pathlib import Path

import pytest

from detection_core.config.load import load_checked_config, load_pipeline_config, with_line, write_as_run
from detection_core.errors import ConfigError
from tests.support.cases import refused
from tests.support.configs import CENTER, LAYERS, PYRAMID, TWO_STAGE, line_with


def test_values_defaults_lists_and_maps_are_read():
    ssd = load_pipeline_config(PYRAMID).model.ssd
    assert (ssd.num_classes, ssd.feature_extractor.fpn.max_level) == (5, 6)
    assert ssd.loss.classification_loss.weighted_sigmoid_focal.alpha == pytest.approx(0.25)
    assert ssd.anchor_generator.multiscale_anchor_generator.anchor_scale == 4.0
    config = load_pipeline_config(LAYERS)
    assert config.train_config.batch_size == 32
    anchors = config.model.ssd.anchor_generator.ssd_anchor_generator
    assert (list(anchors.width_stride), list(anchors.aspect_ratios)) == ([16, 32, 64, 128], [1, 2])
    steps = config.train_config.data_augmentation_options
    assert [s.WhichOneof("preprocessing_step") for s in steps] == ["ssd_random_crop", "random_adjust_hue"]
    pose = load_pipeline_config(CENTER).model.center_net.keypoint_estimation_task[0]
    assert sorted(pose.keypoint_label_to_std) == ["left eye", "nose"]
    second = load_pipeline_config(TWO_STAGE).model.faster_rcnn.second_stage_post_processing
    pairs = second.calibration_config.class_id_function_approximations.class_id_xy_pairs_map
    assert pairs[3].x_y_pair[1].y == pytest.approx(0.9)


def test_an_error_names_its_line(tmp_path):
    none = str(tmp_path / "none.config")
    assert refused(ConfigError, "check the path", load_pipeline_config, none).where == none
    path = tmp_path / "wrong.config"
    path.write_text(Path(PYRAMID).read_text().replace("unmatched_threshold: 0.4", "unmatched_threshold: 0.6"))
    message = r"argmax_matcher\.unmatched_threshold: expected at most"
    error = refused(ConfigError, message, load_checked_config, str(path))
    assert error.where == f"{path}:{line_with(PYRAMID, 'unmatched_threshold')}"
    found = with_line(ConfigError("expected one", where="model.ssd.image_resizer.none"), PYRAMID)
    assert found.where == f"{PYRAMID}:{line_with(PYRAMID, 'image_resizer')}"
    assert found.message == "model.ssd.image_resizer.none: expected one"
    elsewhere = with_line(ConfigError("expected one", where="labels.pbtxt:3"), PYRAMID)
    assert (elsewhere.where, elsewhere.message) == (PYRAMID, "labels.pbtxt:3: expected one")


def test_overrides_are_applied_before_the_check_files_first_and_written_as_run(tmp_path):
    assert load_checked_config(PYRAMID, {"num_classes": 2}).model.ssd.num_classes == 2
    error = refused(ConfigError, r"model\.ssd\.num_classes", load_checked_config, PYRAMID, {"num_classes": 0})
    assert error.where == f"{PYRAMID}:{line_with(PYRAMID, 'num_classes')}"
    first, second = tmp_path / "first.config", tmp_path / "second.config"
    first.write_text("train_config { batch_size: 2 num_steps: 3 }")
    second.write_text("train_config { num_steps: 4 }")
    train = load_checked_config(PYRAMID, override_files=[str(first), str(second)]).train_config
    assert (train.batch_size, train.num_steps) == (2, 4)
    config = load_checked_config(PYRAMID, {"train_steps": 9}, override_files=[str(first)])
    assert config.train_config.num_steps == 9
    config = load_checked_config(PYRAMID, {"train_steps": 7, "eval_config.max_evals": 2})
    path = str(tmp_path / "run" / "pipeline.config")
    write_as_run(config, path)
    assert load_pipeline_config(path) == config
