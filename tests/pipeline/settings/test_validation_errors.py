"""Types of settings, what does not fit them, and the pages made of them."""

import json
import math
import re
import typing
from pathlib import Path
from typing import Annotated, Literal

import jsonschema
import pydantic
import pytest
import yaml

from detection_core.errors import ConfigError
from pipeline.settings import kubeflow_settings as names
from pipeline.settings import setting_types as types
from pipeline.settings.data_settings import Split
from pipeline.settings.kubeflow_settings import ConnectionOptions
from pipeline.settings.settings_file import load_settings
from pipeline.settings.validation_errors import locating_errors
from pipeline.settings.workflow_settings import PipelineSettings
from tests.docs.settings_reference import PAGE, SCHEMA, render_page, render_schema
from tests.pipeline.settings.least_settings import KEYS, tree_with
from tests.support.cases import refused
from tests.support.refusals import not_refused


class Inner(types.Settings):
    count: Annotated[int, types.between(1, 3)] = 1


class Outer(types.Settings):
    name: Annotated[types.Text, types.matching("[a-z]+", "small letters", longest=5)]
    inner: Inner = Inner()
    share: float = 0.5
    on: bool = False
    kind: Literal["", "red", "blue"] = ""
    names: Annotated[list[types.Text], types.NOT_EMPTY] = types.from_factory(lambda: ["x"])
    table: dict[types.Text, Split] = types.from_factory(dict)
    note: types.MultilineText = ""
    word: Annotated[types.Text, types.one_of("a", "b")] = "a"
    free: dict[types.Text, types.Plain] = types.from_factory(dict)
    when: types.UnquotedText = ""


def _validate(model, tree):
    with locating_errors(model, {"": "s.yaml", "names": "s.yaml:7"}):
        return model.model_validate(tree)


def _build(**values):
    return _validate(Outer, {"name": "x", **values})


def test_values_take_the_types_of_their_annotations_and_what_does_not_fit_is_named():
    found = _build(share=1, table={"a": 1, "b": "text", "c": {"d": "e"}}, note="two\nlines", when=3)
    assert found.share == 1.0 and isinstance(found.share, float)
    assert found.table == {"a": 1.0, "b": "text", "c": {"d": "e"}}
    assert found.note == "two\nlines" and found.when == "3"
    cases = [(values, f"^s.yaml.*{message}") for values, message in WRONG_VALUES]
    assert not not_refused(lambda values: _build(**values), cases, ConfigError)
    refused(ConfigError, r"s.yaml: the key name is missing", _validate, Outer, {})
    with pytest.raises(ConfigError, match=r"\n  and 2,990 more$") as caught:
        _build(names=[1] * 3_000)
    assert str(caught.value).count("\n") == 10
    with pytest.raises(ConfigError) as caught:
        _build(share="tok-SENTINEL" * 100, kind="x")
    assert caught.value.__suppress_context__ and "1,202 characters" in str(caught.value)


WRONG_VALUES = [
    ({"name": "Xy"}, "name: expected small letters, found 'Xy'"),
    ({"name": "abcdef"}, "name: expected small letters"),
    ({"name": 5}, "name: expected a text, found 5; put it in quotes"),
    ({"name": "a\0"}, r"name: expected a text without control characters, found 'a\\x00'"),
    ({"name": "\ud800"}, "name: expected a text without control characters"),
    ({"name": "a\nb"}, "name: expected a text without control characters"),
    ({"name": "x" * 40_000}, "name: expected a text of at most 32,768 characters, found 40,000"),
    ({"inner": {"count": 4}}, "inner.count: expected 1 to 3, found 4"),
    ({"inner": {"count": True}}, "inner.count: expected a whole number, found True"),
    ({"inner": {"cont": 1}}, "unknown key inner.cont; did you mean inner.count"),
    ({"inner": {1: 1}}, "unknown key inner.1; known keys: count"),
    ({"inner": []}, r"inner: expected a mapping, found \[\]"),
    ({"share": math.nan}, "share: expected a finite number, found nan"),
    ({"share": 10**400}, "share: expected a finite number, found 1000"),
    ({"share": "1"}, "share: expected a number, found '1'"),
    ({"on": 1}, "on: expected true or false, found 1"),
    ({"kind": "bleu"}, "kind: expected red, blue or nothing, found 'bleu'; did you mean blue"),
    ({"kind": []}, "kind: expected red, blue or nothing"),
    ({"names": []}, r"names: expected something, found \[\]"),
    ({"names": [3]}, r"names\[0\]: expected a text, found 3"),
    ({"table": {"a": []}}, r"table.a: expected a number, a text or a mapping, found \[\]"),
    ({"table": {"a": {"b": 3}}}, "table.a.b: expected a text, found 3"),
    ({"table": {"a": True}}, "table.a: expected a number, a text or a mapping, found True"),
    ({"table": {1: 2}}, "table.1: expected a text as the key, found 1; put it in quotes"),
    ({"word": "c"}, "word: expected one of a, b, found 'c'"),
    ({"free": {"a": {"b": [b"x"]}}}, r"free.a.b\[0\]: expected a number, .*or a mapping, found b'x'"),
    ({"free": {"a": 2**70}}, "free.a: expected a whole number of at most 64 bits"),
    ({"when": True}, "when: expected a text, found True"),
]


OF_EVERY_KIND = [
    "null", "-7", ".inf", ".nan", "1" + "0" * 400, '""', "true", "[1, {a: b}, null]", "{a: {b: [c]}}",
    "{1: 2, x: 3}", "{a: 2026-01-01}", "2026-01-01", '"\\0"', "[[[]]]", "!!set {a, b}", "!!binary aGVsbG8=",
]  # fmt: skip


def keys_that_take(value):
    taken = set()
    for key in KEYS:
        try:
            _validate(PipelineSettings, tree_with(key, value))
            taken.add(key)
        except ConfigError as error:
            assert str(error).startswith("s.yaml") and len(str(error)) < 2000 and "\x1b" not in str(error)
    return taken


def test_every_key_takes_or_refuses_every_kind_of_value():
    never = {"data.format", "export.max_detections", "kubeflow.defaults.gpu", "model.config"}
    assert len(KEYS) > 100
    for text in OF_EVERY_KIND:
        assert not keys_that_take(yaml.safe_load(text)) & never, text
    assert not keys_that_take("\x1b[2J"), "control characters"


NONSENSE = [
    ("data: {path: ., format: cooco}", "format: expected auto, coco, .*found 'cooco'; did you mean coco"),
    ("evaluate: {thresholds: {m: {lower: 1}}}", "evaluate.thresholds.m.lower: expected lower_bound"),
    ("evaluate: {thresholds: {m: {lower_bound: x}}}", "m.lower_bound: expected a number, found 'x'"),
    ("evaluate: {thresholds: {m: {}}}", "evaluate.thresholds.m: expected something"),
    ("evaluate: {quantized_thresholds: {m: 3}}", "quantized_thresholds.m: expected a mapping, found 3"),
    ("evaluate: {pictures: -7}", "evaluate.pictures: expected -1 to 100,000, found -7"),
    ("export: {max_detections: -7}", "export.max_detections: expected 1 to 10,000, found -7"),
    ("export: {max_map_drop: .inf}", "export.max_map_drop: expected a finite number"),
    ("export: {formats: [int8, int8]}", "export.formats: expected each once"),
    ("export: {representative_examples: 0}", "export.representative_examples: expected 1 to 100,000"),
    ("beam: {args: [1]}", r"beam.args\[0\]: expected a text, found 1"),
    ("schedule: {time_zone: Europe}", "schedule.time_zone: expected a name such as Europe/Paris"),
    ("schedule: {interval: 99999999999d}", "schedule.interval: expected a time such as 90m"),
    ("kubeflow: {namespace: Default}", "kubeflow.namespace: expected small letters"),
    ("kubeflow: {service_account: a_b}", "kubeflow.service_account: expected small letters"),
    ("kubeflow: {image_pull_secrets: [x y]}", r"kubeflow.image_pull_secrets\[0\]: expected the name"),
    ("kubeflow: {connection: {timeout: -1}}", "kubeflow.connection.timeout: expected 1 to 86,400"),
    ("data: {path: ., splits: {train: 0.5, eval: 0.6}}", "expected ratios above 0 that add up to 1"),
    ("data: {path: ., splits: {train: [a]}}", "data.splits.train: expected a number, a text or a mapping"),
    ("model: {config: c, override_files: [1]}", r"model.override_files\[0\]: expected a text, found 1"),
    ("workspace: ''", "workspace: expected something, found ''"),
]


def test_nonsense_is_refused_with_its_line_all_at_once_in_the_order_of_the_file(tmp_path):
    path = tmp_path / "settings.yaml"

    def load(text):
        path.write_text(yaml.safe_dump({**tree_with(), **yaml.safe_load(text)}), encoding="utf-8")
        load_settings(str(path), check_files=False)

    cases = [(text, rf"settings.yaml:\d+: .*{message}") for text, message in NONSENSE]
    assert not not_refused(load, cases, ConfigError)
    path.write_text(
        "name: t\n"
        "workspace: w\n"
        "push: {keep_versions: many}\n"
        "data: {path: ., formt: coco}\n"
        "model: {config: c, override_files: [1, two, 3]}\n"
        "evaluate: {thresholds: {m: {lower: 1}}}\n"
    )
    with pytest.raises(ConfigError) as caught:
        load_settings(str(path), ["export.max_detections=0"], check_files=False)
    assert str(caught.value).splitlines() == [
        f"{path}:3: push.keep_versions: expected a whole number, found 'many'",
        f"  {path}:4: unknown key data.formt; did you mean data.format?",
        f"  {path}:5: model.override_files[0]: expected a text, found 1; put it in quotes",
        f"  {path}:5: model.override_files[2]: expected a text, found 3; put it in quotes",
        f"  {path}:6: evaluate.thresholds.m.lower: expected lower_bound, upper_bound, min_change, "
        "confidence, found 'lower'; did you mean lower_bound?",
        "  --set: export.max_detections: expected 1 to 10,000, found 0",
    ]


def _models(model=PipelineSettings):
    yield model
    for field in model.model_fields.values():
        for kind in [field.annotation, *typing.get_args(field.annotation)]:
            if isinstance(kind, type) and issubclass(kind, types.Settings):
                yield from _models(kind)


MODELS = [*_models(), ConnectionOptions]


def test_settings_are_frozen_checked_described_and_every_default_fits_its_own_type():
    for model in MODELS:
        assert model.model_config["frozen"] and model.model_config["extra"] == "forbid"
        for name, field in model.model_fields.items():
            # A plain `str` would let control characters through to a terminal.
            assert field.annotation is not str or field.metadata, f"{model.__name__}.{name}"
            if not field.is_required():
                default = field.get_default(call_default_factory=True)
                kind = typing.Annotated[(field.annotation, *field.metadata, None)]
                brings_its_own = isinstance(field.annotation, type) and issubclass(
                    field.annotation, types.Settings
                )
                config = None if brings_its_own else types.Settings.model_config
                adapter = pydantic.TypeAdapter(kind, config=config)
                assert adapter.validate_python(default) == default, f"{model.__name__}.{name}"
    for model in MODELS:
        sections = [name for name, f in model.model_fields.items() if isinstance(f.annotation, type)]
        for name, field in model.model_fields.items():
            if model is PipelineSettings and name in sections[2:]:
                assert field.annotation.__doc__, name
            else:
                assert field.description and field.description.endswith("."), name


def test_marks_of_a_field_are_found():
    class Section(types.Settings):
        path: typing.Annotated[types.Text, types.IsPath(words=("none",))] = ""
        when: types.UnquotedText = ""
        count: typing.Annotated[int, types.between(1, 3)] = 1

    fields = Section.model_fields
    assert [name for name, field in fields.items() if types.is_unquoted_text(field)] == ["when"]
    assert Section(when=3).when == "3"
    properties = Section.model_json_schema()["properties"]
    assert properties["when"]["type"] == ["string", "number"]
    assert (properties["count"]["minimum"], properties["count"]["maximum"]) == (1, 3)


RULES = [
    (names.OBJECT_NAME, ["a", "ca.crt", "x" * 253], ["", "A", "a_b", "-a", "a-", "x" * 254, "a..b"]),
    (names.NAMESPACE_OR_NOTHING, ["", "detflow", "x" * 63], ["a.b", "x" * 64, "-a", "Default"]),
    (names.KEY, ["tls.crt", "_x", "9"], ["", "a b", "a/b"]),
    (names.VARIABLE, ["PATH", "_a", "a.b-c"], ["", "1A", "A=B", "é"]),
    (names.LABEL_KEY, ["disk", "kubernetes.io/arch"], ["", "a/b/c", "-a", "x" * 64, "/a"]),
    (names.LABEL_VALUE, ["", "amd64", "a_b"], ["a b", "-a", "x" * 64]),
    (names.RESOURCE, ["nvidia.com/gpu"], ["gpu", "", "a/"]),
    (names.FOLDER, ["/", "/data"], ["", "data", "~/x"]),
    (names.CPUS, ["", "2", "0.5", "500m"], ["two", "-1", "1e3", "0.5m"]),
    (names.MEMORY, ["", "8Gi", "500M"], ["8GB", "1.5Gi", "8K", "-1", "1024"]),
    (names.SECONDS, ["30s"], ["30", "1m", ""]),
    (names.IMAGE, ["detflow:latest", "r.io/a/b@sha256:0"], ["", " a", "a b"]),
]


def test_names_and_quantities_as_kubernetes_takes_them():
    for rule, good, bad in RULES:
        assert [text for text in good if not rule.holds(text)] == []
        assert [text for text in bad if rule.holds(text)] == []


ROOT = Path(__file__).parents[3]
_REWRITE = "`python -m tests.docs.settings_reference` writes it again"


@pytest.fixture(scope="module")
def validator():
    return jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))


def test_the_page_and_the_schema_are_those_of_the_models_and_examples_fit(validator):
    page = PAGE.read_text(encoding="utf-8")
    assert page == render_page(page), _REWRITE
    assert SCHEMA.read_text(encoding="utf-8") == render_schema(), _REWRITE
    keys = [key.removeprefix("kubeflow.defaults.").removeprefix("kubeflow.connection.") for key in KEYS]
    sections = {key for key in KEYS if any(other.startswith(f"{key}.") for other in KEYS)}
    expected = [key for key in keys if key not in sections and not key.startswith("kubeflow.steps.trainer")]
    assert len(expected) > 70 and [key for key in expected if f"| `{key}` |" not in page] == []
    with pytest.raises(ValueError, match="found 0 times"):
        render_page("# Settings\n")
    validator.check_schema(json.loads(render_schema()))
    for path in sorted(ROOT.glob("examples/*/settings*.yaml")):
        text = path.read_text(encoding="utf-8")
        named = re.match(r"# yaml-language-server: \$schema=(\S+)\n", text)
        assert (path.parent / named[1]).resolve() == SCHEMA
        validator.validate(yaml.safe_load(text))


def test_an_editor_marks_what_is_wrong_and_nothing_that_is_right(validator):
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
        refused(ConfigError, "", _validate, PipelineSettings, tree)
    wrong, right = [], 0
    for value in (None, -7, 3, 0.5, "", "text", "2", True, [], ["a"], {}, {"a": "b"}):
        for key in KEYS:
            tree = tree_with(key, value)
            try:
                _validate(PipelineSettings, tree)
            except ConfigError:
                continue
            right += 1
            wrong += [] if validator.is_valid(tree) else [(key, value)]
    assert wrong == [] and right > 150
