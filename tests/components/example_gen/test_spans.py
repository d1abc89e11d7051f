import pytest

from component_specs.example_gen import SPANS, Spans
from components.example_gen.spans import SpanQuery, before_pattern, fill, has_pattern, resolve_spans, sources
from detection_core.errors import ConfigError, DataError
from tests.support.cases import cases, refused

RATIOS = {"train": 0.8, "eval": 0.2}


@pytest.fixture
def weekly(tmp_path):
    _make(tmp_path, *(f"span-{name}" for name in ("1", "2", "3", "10", "latest", "04")))
    return str(tmp_path / "span-{SPAN}")


def test_data_without_a_pattern_have_no_spans(tmp_path):
    assert resolve_spans(str(tmp_path), RATIOS, SpanQuery()) == Spans()
    assert sources("data", "train.json", ()) == [("", "data", "train.json")]
    with pytest.raises(DataError, match="found none") as raised:
        resolve_spans(str(tmp_path / "{SPAN}"), RATIOS, SpanQuery())
    assert raised.value.where == str(tmp_path / "{SPAN}")
    assert not has_pattern("data/{span}/{x}")
    assert before_pattern("s3://bucket/data/span-{SPAN}/x") == "s3://bucket/data"
    assert before_pattern("/{SPAN}") == "/" and before_pattern("/data") == "/data"


@cases(
    (SpanQuery(), ("10",), ("10",)),
    (SpanQuery(window=3), ("2", "3", "10"), ("10",)),
    (SpanQuery(window=9, eval_window=2), ("1", "2", "3", "10"), ("3", "10")),
    (SpanQuery(span="2", window=2), ("1", "2"), ("2",)),
    (SpanQuery(eval_window=2), ("10",), ("3", "10")),
)
def test_the_window_ends_at_the_wanted_span_and_numbers_sort_by_value(weekly, *, query, train, evaluate):
    spans = resolve_spans(weekly, RATIOS, query)
    assert spans == Spans(train=train, evaluate=evaluate)
    assert SPANS.decode(SPANS.encode(spans)) == spans
    assert spans.of("train") == train and spans.of("test") == evaluate
    assert set(spans.all()) == {*train, *evaluate}


def _make(root, *names):
    for name in names:
        (root / name).mkdir(parents=True)


def test_a_width_takes_numbers_of_that_many_digits(tmp_path):
    _make(tmp_path, "001", "012", "13", "1234")
    pattern = str(tmp_path / "{SPAN:3}")
    assert resolve_spans(pattern, RATIOS, SpanQuery(window=5)).train == ("1", "12")
    assert fill(pattern, "12") == str(tmp_path / "012")
    assert resolve_spans(pattern, RATIOS, SpanQuery(span="001")).train == ("1",)


def test_dates_may_spread_over_folders_and_must_be_dates(tmp_path):
    _make(tmp_path, "2026/11/21/images", "2026/11/03/images", "2025/12/31/images", "2026/13/01/images")
    pattern = str(tmp_path / "{YYYY}" / "{MM}" / "{DD}")
    spans = resolve_spans(pattern, RATIOS, SpanQuery(window=2))
    assert spans.train == ("2026-11-03", "2026-11-21")
    assert sources(pattern, None, spans.train)[0] == ("2026-11-03", str(tmp_path / "2026/11/03"), None)
    assert fill("{YYYY}{MM}{DD}-{YYYY}", "2026-11-03") == "20261103-2026"


def test_a_part_that_names_a_span_twice_must_name_it_alike(tmp_path):
    _make(tmp_path, "3/a-3-3", "4/a-4-5", "5/a-6-6")
    spans = resolve_spans(str(tmp_path / "{SPAN}" / "a-{SPAN}-{SPAN}"), RATIOS, SpanQuery(window=9))
    assert spans.train == ("3",)


def test_a_span_counts_once_every_split_is_there(tmp_path):
    splits = {
        "train": {"annotations": "{SPAN}/train.json", "images": "images"},
        "eval": {"annotations": "{SPAN}/eval.json"},
        "test": "always.json",
    }
    _make(tmp_path, "1", "2")
    assert resolve_spans(str(tmp_path), splits, SpanQuery()).train == ("2",)
    by_name = {"train": "train-{SPAN}.json", "eval": "eval-{SPAN}.json", "test": "always.json"}
    for name in ("train-1", "eval-1", "train-2", "always"):
        (tmp_path / f"{name}.json").touch()
    spans = resolve_spans(str(tmp_path), by_name, SpanQuery(window=4))
    assert spans == Spans(train=("1",), evaluate=("1",))
    assert sources(str(tmp_path), "always.json", spans.evaluate) == [("", str(tmp_path), "always.json")]
    location = {"annotations": "{SPAN}/train.json", "images": "images"}
    filled = {"annotations": "7/train.json", "images": "images"}
    assert sources("data", location, ("7",)) == [("7", "data", filled)]
    with pytest.raises(ConfigError, match="name of a folder"):
        resolve_spans(str(tmp_path), by_name, SpanQuery(ready_file="_SUCCESS"))


def test_a_span_without_its_marker_is_not_there_yet(weekly, tmp_path):
    for name in ("span-1", "span-2"):
        (tmp_path / name / "_SUCCESS").touch()
    assert resolve_spans(weekly, RATIOS, SpanQuery(ready_file="_SUCCESS", window=9)).train == ("1", "2")
    with pytest.raises(DataError, match="expected the span 3 with a file _SUCCESS, found 1, 2"):
        resolve_spans(weekly, RATIOS, SpanQuery(span="3", ready_file="_SUCCESS"))


@cases("x/{YYYY}-{MM}", "x/{SPAN}/{YYYY}{MM}{DD}", "x/{SPAN}/{VERSION}")
def test_a_pattern_that_cannot_be_used_is_refused(*, path):
    refused(ConfigError, r"expected \{SPAN\}, or \{YYYY\}", resolve_spans, path, RATIOS, SpanQuery())
