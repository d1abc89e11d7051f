import math
from typing import Annotated, Literal

import pytest
import yaml

from detection_core.errors import ConfigError
from pipeline.settings import setting_types as types
from pipeline.settings.setting_types import Settings, Text, between, setting
from pipeline.settings.settings_file import checked_settings, load_settings
from pipeline.settings.validation_errors import Source, build_settings
from pipeline.settings.workflow_settings import Split
from tests.pipeline.settings.least_settings import KEYS, tree_with
from tests.support.cases import refused
from tests.support.refusals import not_refused


class Inner(Settings):
    count: Annotated[int, between(1, 3)] = 1


class Outer(Settings):
    name: Annotated[Text, types.matching("[a-z]+", "small letters", longest=5)]
    inner: Inner = Inner()
    share: float = 0.5
    on: bool = False
    kind: Literal["", "red", "blue"] = ""
    names: Annotated[list[Text], types.NOT_EMPTY] = setting(lambda: ["x"], "")
    table: dict[Text, Split] = setting(dict, "")
    note: types.MultilineText = ""
    word: Annotated[Text, types.one_of("a", "b")] = "a"
    free: dict[Text, types.Plain] = setting(dict, "")
    when: types.UnquotedText = ""


def _build(**values):
    return build_settings(Outer, {"name": "x", **values}, Source("s.yaml", {"names": "s.yaml:7"}))


def test_values_take_the_types_of_their_annotations_and_what_does_not_fit_is_named():
    found = _build(share=1, table={"a": 1, "b": "text", "c": {"d": "e"}}, note="two\nlines", when=3)
    assert found.share == 1.0 and isinstance(found.share, float)
    assert found.table == {"a": 1.0, "b": "text", "c": {"d": "e"}}
    assert found.note == "two\nlines" and found.when == "3"
    cases = [(values, f"^s.yaml.*{message}") for values, message in WRONG_VALUES]
    assert not not_refused(lambda values: _build(**values), cases, ConfigError)
    refused(ConfigError, r"s.yaml: the key name is missing", build_settings, Outer, {}, Source("s.yaml"))
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
            checked_settings(tree_with(key, value), Source("s.yaml"))
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


def test_nonsense_is_refused_with_its_line(tmp_path):
    path = tmp_path / "settings.yaml"

    def load(text):
        path.write_text(yaml.safe_dump({**tree_with(), **yaml.safe_load(text)}), encoding="utf-8")
        load_settings(str(path), check_files=False)

    cases = [(text, rf"settings.yaml:\d+: .*{message}") for text, message in NONSENSE]
    assert not not_refused(load, cases, ConfigError)


def test_all_that_is_wrong_is_told_at_once_in_the_order_of_the_file(tmp_path):
    path = tmp_path / "settings.yaml"
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
