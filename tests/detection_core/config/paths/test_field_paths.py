from detection_core.config.load import load_pipeline_config
from detection_core.config.paths import field_paths
from detection_core.config.paths.field_paths import (
    element_index,
    find_targets,
    map_key,
    nearest_paths,
    split_path,
)
from detection_core.protos.calibration_pb2 import ClassIdSigmoidCalibrations
from detection_core.protos.eval_pb2 import EvalConfig
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from tests.support.cases import config_refused
from tests.support.configs import PYRAMID, TWO_STAGE

ROOT = TrainEvalPipelineConfig.DESCRIPTOR
CATEGORIES = EvalConfig.DESCRIPTOR.fields_by_name["super_categories"]
SIGMOIDS = ClassIdSigmoidCalibrations.DESCRIPTOR.fields_by_name["class_id_sigmoid_parameters_map"]


def test_a_path_is_split_at_dots_outside_brackets():
    expected = [
        field_paths.Segment(name=name, index=index) for name, index in (("a", None), ("b", "c.d"), ("e", "+"))
    ]
    assert split_path("a.b[c.d].e[+]", where="") == expected
    for path in ("", ".", "a.", ".a", "a..b", "a[0", "a]", "a b", "a[0]b"):
        config_refused("expected a field path", lambda path=path: split_path(path, where="here"))


def test_targets_of_one_and_of_every_element_are_found_and_nothing_is_set():
    config = load_pipeline_config(TWO_STAGE)
    (target,) = find_targets(config, "eval_input_reader[1].name", where="")
    assert target.container == config.eval_input_reader[1]
    every = find_targets(config, "eval_input_reader[*].name", where="")
    assert [getattr(target.container, target.field.name) for target in every] == ["day", "night"]
    config = load_pipeline_config(PYRAMID)
    find_targets(config, "model.ssd.mask_head_config.conv_hyperparams.batch_norm.decay", where="")
    assert config == load_pipeline_config(PYRAMID)


def test_positions_keys_and_kinds_of_elements():
    assert [element_index(text, 3, "") for text in ("0", "2", "-1")] == [0, 2, 2]
    for text in ("3", "-4", "x", ""):
        config_refused("", element_index, text, 3, "here")
    assert (field_paths.is_map(CATEGORIES), field_paths.holds_messages(CATEGORIES)) == (True, False)
    assert (field_paths.is_map(SIGMOIDS), field_paths.holds_messages(SIGMOIDS)) == (True, True)
    assert field_paths.holds_messages(ROOT.fields_by_name["model"])
    assert map_key(CATEGORIES, "'a.b'", "") == "a.b"
    assert map_key(SIGMOIDS, "3", "") == 3
    config_refused("whole number", map_key, SIGMOIDS, "cat", "here")


def test_nearest_paths_look_alike_and_new_elements_stand_beside_each_other():
    assert nearest_paths("ssd.num_classes", ROOT) == ["model.ssd.num_classes"]
    assert "model.ssd.num_classes" in nearest_paths("mode.num_classes", ROOT)
    assert nearest_paths("train_config.batch_sise", ROOT)[0] == "train_config.batch_size"
    assert nearest_paths("eval_input_readers[0].shufle", ROOT)[0] == "eval_input_reader.shuffle"
    found = {index: field_paths.is_new(index) for index in ("+", "+2", "2", "+x", None)}
    assert found == {"+": True, "+2": True, "2": False, "+x": False, None: False}
    taken = {}
    for path in ("a[+].b", "a[+].b", "a[+].c", "d[0]", "d[0]", "a[+].b"):
        taken[field_paths.key_beside(path, taken)] = 0
    assert list(taken) == ["a[+].b", "a[+2].b", "a[+].c", "d[0]", "a[+3].b"]
