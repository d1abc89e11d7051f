import dataclasses

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.config.automl.defaults import DEFAULTS, MODELS, model_values
from detection_core.config.automl.typed_values import READERS, load_hyperparameters
from detection_core.errors import ConfigError
from tests.detection_core.config.automl.facts import load_facts
from tests.support.cases import cases, refused

FACTS = load_facts("hparams")
# Accepted by theirs at first, and then failed on by their model, training or input.
FAILED_LATER = {"loss_scale=2**16", "nms_configs=1", "num_scales=[1]", "label_map={1:2}"}
DROPS = "lr_decay_method=stepwise,first_lr_drop_epoch=9,second_lr_drop_epoch=8"


def test_every_model_has_typed_values_and_every_hyperparameter_a_reader():
    for model in MODELS:
        values = load_hyperparameters(model).values
        assert values.name == model and values.backbone_name.startswith("efficientnet-")
        assert all(isinstance(side, int) for side in values.image_size)
    assert list(READERS) == list(DEFAULTS)
    for text in ("heads=segmentation", "heads=segmentation*"):
        assert load_hyperparameters("efficientdet-d0", text).values.heads == ("segmentation",)
    both = load_hyperparameters("efficientdet-d0", "heads=object_detection*segmentation").values
    assert both.heads == ("object_detection", "segmentation")


@cases(*(c for c in FACTS["override_string_cases"] if "raises" not in c))
def test_what_theirs_accepts_is_typed_or_refused_with_the_field(*, case):
    if case["string"] in FAILED_LATER:
        refused(ConfigError, r"^hparams\.\w+.*: expected", load_hyperparameters, case["base"], case["string"])
    else:
        loaded = load_hyperparameters(case["base"], case["string"])
        assert all(name in loaded.overridden for name in case["result"])


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
