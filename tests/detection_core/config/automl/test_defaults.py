import pytest

from detection_core.config.automl.defaults import DEFAULTS, MODELS, model_values
from tests.detection_core.config.automl.facts import changed, load_facts, plain
from tests.support.cases import config_refused

FACTS = load_facts("hparams")


def test_defaults_and_models_are_theirs():
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
