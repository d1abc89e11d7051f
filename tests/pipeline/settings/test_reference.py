import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from detection_core.errors import ConfigError
from pipeline.settings.reference import PAGE, SCHEMA, render_page, render_schema
from pipeline.settings.settings_file import checked_settings
from pipeline.settings.validation_errors import Source
from tests.pipeline.settings.least_settings import KEYS, tree_with
from tests.support.cases import refused

ROOT = Path(__file__).parents[3]
_REWRITE = "`python -m pipeline.settings.reference` writes it anew"


@pytest.fixture(scope="module")
def validator():
    return jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))


def test_the_page_and_the_schema_are_those_of_the_models():
    page = PAGE.read_text(encoding="utf-8")
    assert page == render_page(page), _REWRITE
    assert SCHEMA.read_text(encoding="utf-8") == render_schema(), _REWRITE
    keys = [key.removeprefix("kubeflow.defaults.").removeprefix("kubeflow.connection.") for key in KEYS]
    sections = {key for key in KEYS if any(other.startswith(f"{key}.") for other in KEYS)}
    expected = [key for key in keys if key not in sections and not key.startswith("kubeflow.steps.trainer")]
    assert len(expected) > 70 and [key for key in expected if f"| `{key}` |" not in page] == []
    with pytest.raises(ValueError, match="found 0 times"):
        render_page("# Settings\n")


def test_an_example_fits_the_schema_that_its_first_line_names(validator):
    validator.check_schema(json.loads(render_schema()))
    for path in sorted(ROOT.glob("examples/*/settings*.yaml")):
        text = path.read_text(encoding="utf-8")
        named = re.match(r"# yaml-language-server: \$schema=(\S+)\n", text)
        assert (path.parent / named[1]).resolve() == SCHEMA
        validator.validate(yaml.safe_load(text))


def test_an_editor_marks_what_is_wrong(validator):
    for change in (
        {"nme": "x"},
        {"name": "no spaces"},
        {"push": {"keep_versions": "many"}},
        {"model": {"config": "c", "override_files": [1]}},
        {"kubeflow": {"steps": {"trainr": {}}}},
        {"kubeflow": {"defaults": {"memory": "8GB"}}},
        {"evaluate": {"thresholds": {"m": {"lower": 1}}}},
        {"export": {"formats": []}},
    ):
        tree = {**tree_with(), **change}
        assert not validator.is_valid(tree), change
        refused(ConfigError, "", checked_settings, tree, Source("s.yaml"))


def test_an_editor_marks_nothing_that_is_right(validator):
    wrong, right = [], 0
    for value in (None, -7, 3, 0.5, "", "text", "2", True, [], ["a"], {}, {"a": "b"}):
        for key in KEYS:
            tree = tree_with(key, value)
            try:
                checked_settings(tree, Source("s.yaml"))
            except ConfigError:
                continue
            right += 1
            wrong += [] if validator.is_valid(tree) else [(key, value)]
    assert wrong == [] and right > 150
