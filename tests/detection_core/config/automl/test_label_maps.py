from __future__ import annotations

import pathlib
from typing import Any

import pytest

from detection_core.config.automl.label_maps import BUILT_IN, resolve_label_map, to_label_map
from detection_core.config.automl.typed_values import load_hyperparameters
from detection_core.errors import ConfigError
from tests.detection_core.config.automl.facts import load_facts
from tests.support.cases import cases

FACTS = load_facts("label_maps")


@cases(*BUILT_IN)
def test_golden_built_in_maps(*, name: str) -> None:
    assert resolve_label_map(name) == {int(number): text for number, text in FACTS[name]["fact"].items()}


def test_golden_table_and_file(tmp_path: pathlib.Path) -> None:
    assert resolve_label_map({1: "a"}) == {1: "a"}
    path = tmp_path / "names.yaml"
    path.write_text(FACTS["yaml_file"]["params"]["text"], encoding="utf-8")
    expected = {int(number): text for number, text in FACTS["yaml_file"]["fact"].items()}
    assert resolve_label_map(str(path)) == expected


@cases(None, "", {})
def test_golden_without_a_map(*, nothing: Any) -> None:
    assert resolve_label_map(nothing) == {}


def test_golden_unknown_name_is_refused() -> None:
    assert FACTS["unknown_name"]["error"]["type"] == "KeyError"
    with pytest.raises(ConfigError, match=r"hparams\.label_map: .*one of coco, voc, waymo, found 'foo'"):
        resolve_label_map("foo")


@cases(5, ["person"])
def test_golden_wrong_types_are_refused(*, value: Any) -> None:
    with pytest.raises(ConfigError, match=r"hparams\.label_map: expected a table of class id: name"):
        load_hyperparameters("efficientdet-d0", {"label_map": value})


def test_a_map_becomes_ours_without_the_background() -> None:
    found = to_label_map({0: "background", 1: "person", 3: "dog"})
    assert [(item.id, item.name) for item in found.items] == [(1, "person"), (3, "dog")]


def test_a_name_of_two_ids_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"hparams\.label_map: .*dog"):
        to_label_map({1: "dog", 2: "dog"})
