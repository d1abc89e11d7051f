"""Hyper-parameters of google/automl: what they are called and may be, and how they are read."""

import ast
import dataclasses
import json
import re

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.allowed_values import FRACTION, LOSS_SCALE, up_to
from detection_core.bounded.plain_yaml import module_table
from detection_core.config.automl import hparams, hyperparameters
from detection_core.config.automl import value_readers as readers
from detection_core.config.automl.hparams import (
    BUILT_IN,
    MODELS,
    apply_overrides,
    load_hyperparameters,
    model_values,
    read_overrides,
    read_yaml,
    read_yaml_file,
    resolve_label_map,
    split_run_settings,
    to_label_map,
)
from detection_core.config.automl.hyperparameters import (
    DEFAULTS,
    MODEL,
    READERS,
    SUPPORT,
    HyperParameters,
    NmsConfigs,
)
from detection_core.config.automl.translation import check_made_with, is_efficientdet, translate
from detection_core.config.pipeline_config import PipelineConfig
from detection_core.errors import ConfigError
from detection_core.protos.efficientdet_pb2 import EfficientDet
from tests.detection_core.config.automl.facts import changed, load_facts, plain
from tests.support.cases import cases, config_refused, refused


def test_every_hyperparameter_is_documented_and_has_a_reader_and_a_field_or_a_fate_with_a_reason():
    for record, names in ((HyperParameters, DEFAULTS), (NmsConfigs, DEFAULTS["nms_configs"])):
        assert [field.name for field in dataclasses.fields(record)] == list(names)
    described = [line.split(":")[0].strip() for line in NmsConfigs.__doc__.splitlines() if ":" in line]
    assert [name for name in described if name in DEFAULTS["nms_configs"]] == list(DEFAULTS["nms_configs"])
    assert list(SUPPORT) == list(READERS) == list(DEFAULTS)
    assert {name for part in module_table(hyperparameters.__file__).values() for name in part} <= set(SUPPORT)
    assert SUPPORT["loss_scale"].expected == LOSS_SCALE.text
    values, fields = load_hyperparameters("efficientdet-d0").values, EfficientDet.DESCRIPTOR.fields_by_name
    for name, support in SUPPORT.items():
        assert len(support.text) > 10 and support.fits(values), name
        if support.text.startswith(f"{MODEL}."):
            assert re.split("[,; .]", support.text.removeprefix(f"{MODEL}."))[0] in fields
        assert bool(support.expected) == bool(support.remedy)
        assert support.expected or support.kind != "refused"


FACTS = load_facts("hparams")


def test_defaults_and_models_are_theirs_and_typed():
    assert list(DEFAULTS) == list(FACTS["defaults"])
    for name, value in FACTS["defaults"].items():
        assert plain(DEFAULTS[name]) == (pytest.approx(value) if name.endswith("_rgb") else value), name
    assert list(MODELS) == list(FACTS["effective"])
    for model, expected in FACTS["effective"].items():
        assert changed(model_values(model), dict(DEFAULTS)) == expected, model
    model_values("efficientdet-d0")["nms_configs"]["method"] = "hard"
    assert model_values("efficientdet-d0")["nms_configs"]["method"] == "gaussian", "a copy, not the defaults"
    for case in FACTS["get_config_errors"]:
        message = f"expected one of efficientdet-d0, .*found '{case['name']}"
        config_refused(message, model_values, case["name"])
    for model in MODELS:
        values = load_hyperparameters(model).values
        assert values.name == model and values.backbone_name.startswith("efficientnet-")
        assert all(isinstance(side, int) for side in values.image_size)
    both = ("object_detection", "segmentation")
    for text, heads in {"segmentation": both[1:], "segmentation*": both[1:], "*".join(both): both}.items():
        assert load_hyperparameters("efficientdet-d0", f"heads={text}").values.heads == heads


# Accepted by theirs at first, and then failed on by their model, training or input.
FAILED_LATER = {"loss_scale=2**16", "nms_configs=1", "num_scales=[1]", "label_map={1:2}"}
DROPS = "lr_decay_method=stepwise,first_lr_drop_epoch=9,second_lr_drop_epoch=8"


def test_a_saved_config_names_its_model_and_its_run(tmp_path):
    saved = model_values("efficientdet-lite1") | {
        "image_size": (384, 256), "model_name": "efficientdet-lite1", "batch_size": 16, "steps_per_epoch": 7,
        "num_shards": 1, "label_map": {1: "person", 2: "dog"},
    }  # fmt: skip
    path = tmp_path / "config.yaml"
    path.write_text(yaml.dump(saved, indent=4), encoding="utf-8")
    loaded = load_hyperparameters("", str(path))
    assert loaded.values.image_size == (384, 256) and loaded.values.fpn_num_filters == 88
    run = ("model_name", "batch_size", "steps_per_epoch", "num_shards")
    assert loaded.run == {name: saved[name] for name in run}
    assert loaded.values.label_map == {1: "person", 2: "dog"}
    for text in ("num_classes: 3", "model_name: {1: 2}", "model_name: ['efficientdet-d0']", "model_name: 7"):
        path.write_text(text)
        refused(ConfigError, "model name: expected the name of a model", load_hyperparameters, "", str(path))


@cases(
    ("max_level=2", r"hparams\.max_level: expected at least min_level, 3, found 2"),
    ("anchor_scale=4*5", r"hparams\.anchor_scale: .*each of the 5 levels 3\.\.7, found \[4\.0, 5\.0\]"),
    ("jitter_max=0.05", r"hparams\.jitter_max: expected at least jitter_min, 0\.1"),
    (DROPS, r"hparams\.second_lr_drop_epoch: expected at least first_lr_drop_epoch, 9"),
    ("optimizer=rmsprop", r"hparams\.optimizer: expected one of sgd, adam, found 'rmsprop'"),
    ("lr_decay_method=linear", r"hparams\.lr_decay_method: expected one of cosine, polynomial, stepwise"),
    ("nms_configs=1", r"hparams\.nms_configs: expected a table, found 1; .*nms_configs\.method=hard"),
    ("aspect_ratios=[1.0,2.0]", r"found '2\.0\]'.*write a list as aspect_ratios=1\.0\*2\.0\*0\.5"),
    ("num_clases=3", r"^hparams: .*'num_clases'; did you mean num_classes\?"),
    ("nms_configs.metod=hard", r"^hparams\.nms_configs: .*'metod'; did you mean method\?"),
    ("nowhere.yaml", r"nowhere\.yaml"),
)
def test_values_that_cannot_be_used_are_refused(*, hparams, message):
    refused(ConfigError, message, load_hyperparameters, "efficientdet-d0", hparams)


@settings(max_examples=50)
@given(st.sampled_from(list(DEFAULTS)), st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=4,
))  # fmt: skip
def test_any_value_is_typed_or_refused(name, value):
    try:
        loaded = load_hyperparameters("efficientdet-d0", {name: value})
    except ConfigError as error:
        assert str(error).startswith(f"hparams.{name}") or "hparams" in str(error)
    else:
        assert dataclasses.asdict(loaded.values).keys() == DEFAULTS.keys()


def overridden(hparams, base="efficientdet-d0"):
    values = model_values(base)
    return changed(apply_overrides(values, read_overrides(hparams)), values)


@cases(*FACTS["override_string_cases"])
def test_a_text_is_accepted_and_typed_or_refused_as_theirs_is(*, case):
    given = (case["string"], case["base"])
    if "raises" in case:
        refused(ConfigError, r"^hparams[.\w]*: expected .*, found .*; ", overridden, *given)
        return
    assert overridden(*given) == case["result"]
    if case["string"] in FAILED_LATER:
        refused(ConfigError, r"^hparams\.\w+.*: expected", load_hyperparameters, *given[::-1])
    else:
        assert set(case["result"]) <= set(load_hyperparameters(*given[::-1]).overridden)


@cases(*(c for c in FACTS["override_other_cases"] if "allow_new_keys" not in c["value"]))
def test_a_table_is_accepted_or_refused_as_theirs_is(*, case):
    value = json.loads(case["value"])
    if value is None:  # theirs refuses None; here it is what a flag that was not given holds
        assert overridden(value) == {}
    elif "raises" in case:
        refused(ConfigError, "hparams: expected", overridden, value)
    else:
        assert overridden(value) == case["result"]


def test_a_yaml_file_is_read_as_theirs_is_and_pieces_of_a_table_merge(tmp_path):
    case = FACTS["override_yaml_case"]
    path = tmp_path / "mine.yaml"
    path.write_text(case["yaml"], encoding="utf-8")
    assert overridden(str(path)) == overridden(case["yaml"]) == case["result"]
    found = hparams.parse_pairs("label_map.1=a,label_map.2=b,num_classes=3,num_classes=4")
    assert found == {"label_map": {"1": "a", "2": "b"}, "num_classes": 4}
    assert split_run_settings({"batch_size": 8, "num_classes": 3}) == ({"num_classes": 3}, {"batch_size": 8})
    assert not set(split_run_settings(DEFAULTS)[1])


FLAT = st.sampled_from([name for name in DEFAULTS if name != "nms_configs"])


@given(st.dictionaries(FLAT, st.integers() | st.booleans()))
def test_pairs_of_any_fields_come_back(values):
    text = ",".join(f"{key}={value}" for key, value in values.items())
    assert read_overrides(text) == values


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused_with_one_clear_error(text):
    try:
        apply_overrides(model_values("efficientdet-d0"), read_overrides(text))
    except ConfigError as error:
        assert "expected" in str(error) or "cannot read" in str(error)


@cases(*FACTS["parse_image_size"])
def test_image_sizes_are_read_as_theirs_are(*, case):
    value = ast.literal_eval(case["value"])
    if "raises" in case:
        config_refused("^x: expected a side in pixels", readers.image_size, value, "x")
    else:
        assert readers.image_size(value, "x") == tuple(case["result"])


@cases(
    (readers.number(FRACTION), "5e-1", 0.5),  # YAML takes 5e-1 for a text
    (readers.whole(up_to(9)), 3.0, 3),
    (readers.switch, 1, True),
    (readers.switch, None, False),
    (readers.channels, 127, (127.0, 127.0, 127.0)),
    (readers.channels, [1, 2, 3.5], (1.0, 2.0, 3.5)),
    (readers.aspect_ratios, [1, [1.4, 0.7]], (1.0, (1.4, 0.7))),
    (readers.anchor_scale, [4, 5], (4.0, 5.0)),
    (readers.names_of("a", "b"), "a", ("a",)),
    (readers.names_of("a", "b"), ["b", ""], ("b",)),
    (readers.label_map, {"2": "dog", 1: "cat"}, {2: "dog", 1: "cat"}),
    (readers.optional(readers.text), "", None),
    (readers.choice("sgd", any_case=True), "SGD", "sgd"),
    (readers.epoch_or_whole(up_to(9)), "epoch", "epoch"),
)
def test_what_was_meant_is_taken(*, read, value, expected):
    assert read(value, "x") == expected


@cases(
    (readers.number(FRACTION), [2, "", 16], r"write the number itself, 65536 for 2\*\*16"),
    (readers.number(FRACTION), True, "expected a number from 0 to 1, found True"),
    (readers.number(FRACTION), float("nan"), "found nan"),
    (readers.number(FRACTION), 10**400, "expected a number from 0 to 1"),
    (readers.whole(up_to(9)), 2.5, "expected a whole number"),
    (readers.switch, "yes", "expected true or false, found 'yes'"),
    (readers.expression, ["(efficientnet.", ")"], "write this value in a YAML file"),
    (readers.expression, "(", "expected a regular expression"),
    (readers.choice("relu", "swish"), " relu", r"found ' relu'; did you mean relu\?"),
    (readers.channels, [1, 2], "a number, or three"),
    (readers.divisors, 0, "numbers above 0"),
    (readers.aspect_ratios, [[1, 2, 3]], r"x\[0\]: expected a pair"),
    (readers.aspect_ratios, [], "at least one ratio"),
    (readers.names_of("a", "b"), [""], "one or more of a, b"),
    (readers.names_of("a", "b"), ["a", "a"], "one or more of a, b"),
    (readers.label_map, {"person": 1}, "expected a class id"),
    (readers.label_map, {1: 2}, r"x\[1\]: expected a text, found 2"),
    (readers.label_map, [1], "expected a table of class id: name"),
    (readers.image_size, True, "expected a side in pixels"),
    (readers.image_size, 0, "expected a number of pixels"),
    (readers.table, 1, "expected a table, found 1"),
)
def test_what_cannot_be_meant_is_refused(*, read, value, message):
    config_refused(message, read, value, "x")


def test_what_python_saves_of_a_config_is_read(tmp_path):
    saved = yaml.dump({"image_size": (512, 640), "nms_configs": {"sigma": None}}, indent=4)
    assert "python/tuple" in saved
    assert read_yaml(saved, where="config.yaml") == {"image_size": (512, 640), "nms_configs": {"sigma": None}}
    for nothing in ("", "# nothing\n", "---\n"):
        assert read_yaml(nothing, where="x.yaml") == {}
    path = tmp_path / "config.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    config_refused("not UTF-8", read_yaml_file, str(path))


@cases(
    ("a: [1", r"^x\.yaml:\d:\d: not valid YAML"),
    ("a: 1\nb: : 2\n", r"^x\.yaml:2:4: "),
    ("[1, 2]", r"expected a table of key: value lines, found \[1, 2\]"),
    ("a: !!python/object/apply:os.getcwd []", r"^x\.yaml:1:4: .*python/object"),
    ("a: \0", "not valid YAML"),
)
def test_what_is_no_plain_table_is_refused(*, text, message):
    config_refused(message, lambda: read_yaml(text, where="x.yaml"))


def test_golden_maps_become_ours(tmp_path):
    facts = load_facts("label_maps")
    path = tmp_path / "names.yaml"
    path.write_text(facts["yaml_file"]["params"]["text"], encoding="utf-8")
    for name in (*BUILT_IN, "yaml_file"):
        given = str(path) if name == "yaml_file" else name
        assert resolve_label_map(given) == {int(n): text for n, text in facts[name]["fact"].items()}, name
    assert resolve_label_map({1: "a"}) == {1: "a"}
    for nothing in (None, "", {}):
        assert resolve_label_map(nothing) == {}
    found = to_label_map({0: "background", 1: "person", 3: "dog"})
    assert [(item.id, item.name) for item in found.items] == [(1, "person"), (3, "dog")]
    config_refused(r"hparams\.label_map: .*dog", to_label_map, {1: "dog", 2: "dog"})
    config_refused(r"hparams\.label_map: .*one of coco, voc, waymo, found 'foo'", resolve_label_map, "foo")
    for value in (5, ["person"]):
        message, hparams = r"hparams\.label_map: expected a table of class id: name", {"label_map": value}
        config_refused(message, load_hyperparameters, "efficientdet-d0", hparams)


LITE0 = "efficientdet-lite0"
HPARAMS = "num_classes=2,image_size=64,fpn_cell_repeats=1,nms_configs.score_thresh=0.2"
CONFIG = translate(LITE0, HPARAMS).config


def test_what_a_detector_was_made_with_is_accepted():
    """The training's, and all of a config's at once, too, as its `as_dict()` gives them."""
    check_made_with(CONFIG, {"num_classes": 2, "image_size": "64x64", "learning_rate": 1})
    check_made_with(CONFIG, {"nms_configs": {"score_thresh": 0.2}}, LITE0)
    check_made_with(CONFIG, dataclasses.asdict(load_hyperparameters(LITE0, HPARAMS).values), LITE0)
    assert is_efficientdet(CONFIG) and not is_efficientdet(PipelineConfig())


@cases(
    ({"num_classes": 90}, "num_classes: expected what the detector was made with, 2, found 90"),
    ({"image_size": 512}, r"image_size: .*\(64, 64\), found \(512, 512\)"),
    ({"nms_configs": {"score_thresh": 0.4}}, "nms_configs: expected"),
    ({"aspect_ratios": [1.0, 3.0, 0.3]}, "aspect_ratios: expected"),
    ({"no_such": 1}, "no_such"),
)
def test_another_is_refused_by_its_name(*, changed, found):
    config_refused(found, lambda: check_made_with(CONFIG, changed, where="model_params"))
