from __future__ import annotations

import pytest

from detection_core.config.automl.defaults import DEFAULTS, MODELS, model_values
from detection_core.errors import ConfigError
from tests.detection_core.config.automl.facts import changed, load_facts, plain
from tests.support.cases import cases

FACTS = load_facts("hparams")


def test_every_default_is_theirs_in_their_order() -> None:
    assert list(DEFAULTS) == list(FACTS["defaults"])
    for name, value in FACTS["defaults"].items():
        assert plain(DEFAULTS[name]) == (pytest.approx(value) if name.endswith("_rgb") else value), name


def test_every_model_is_known() -> None:
    assert list(MODELS) == list(FACTS["effective"])


@cases(*FACTS["effective"])
def test_a_model_changes_what_theirs_changes(*, model: str) -> None:
    expected = FACTS["effective"][model]
    found = changed(model_values(model), dict(DEFAULTS))
    assert found == expected


def test_values_of_a_model_are_its_own_copy() -> None:
    model_values("efficientdet-d0")["nms_configs"]["method"] = "hard"
    assert model_values("efficientdet-d0")["nms_configs"]["method"] == "gaussian"


@cases(*FACTS["get_config_errors"])
def test_an_unknown_model_is_refused(*, case: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"expected one of efficientdet-d0, .*found '" + case["name"]):
        model_values(case["name"])
