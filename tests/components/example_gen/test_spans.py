import pytest

from component_specs.example_gen import SPANS, Spans
from components.example_gen.spans import SpanQuery, before_pattern, fill, has_pattern, resolve_spans, sources
from detection_core.errors import ConfigError, DataError
from tests.support.cases import cases

RATIOS = {"train": 0.8, "eval": 0.2}


@pytest.fixture
def weekly(tmp_path):
    for number in (1, 2, 3, 10):
        (tmp_path / f"span-{number}").mkdir()
    (tmp_path / "span-latest").mkdir()
    (tmp_path / "span-04").mkdir()
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


def test_a_width_takes_numbers_of_that_many_digits(tmp_path):
    for name in ("001", "012", "13", "1234"):
        (tmp_path / name).mkdir()
    pattern = str(tmp_path / "{SPAN:3}")
    assert resolve_spans(pattern, RATIOS, SpanQuery(window=5)).train == ("1", "12")
    assert fill(pattern, "12") == str(tmp_path / "012")
    assert resolve_spans(pattern, RATIOS, SpanQuery(span="001")).train == ("1",)


def test_dates_may_spread_over_folders_and_must_be_dates(tmp_path):
    for name in ("2026/11/21", "2026/11/03", "2025/12/31", "2026/13/01"):
        (tmp_path / name / "images").mkdir(parents=True)
    pattern = str(tmp_path / "{YYYY}" / "{MM}" / "{DD}")
    spans = resolve_spans(pattern, RATIOS, SpanQuery(window=2))
    assert spans.train == ("2026-11-03", "2026-11-21")
    assert sources(pattern, None, spans.train)[0] == ("2026-11-03", str(tmp_path / "2026/11/03"), None)
    assert fill("{YYYY}{MM}{DD}-{YYYY}", "2026-11-03") == "20261103-2026"


def test_a_part_that_names_a_span_twice_must_name_it_alike(tmp_path):
    (tmp_path / "3" / "a-3-3").mkdir(parents=True)
    (tmp_path / "4" / "a-4-5").mkdir(parents=True)
    (tmp_path / "5" / "a-6-6").mkdir(parents=True)
    spans = resolve_spans(str(tmp_path / "{SPAN}" / "a-{SPAN}-{SPAN}"), RATIOS, SpanQuery(window=9))
    assert spans.train == ("3",)


def test_a_span_counts_once_every_split_is_there(tmp_path):
    splits = {
        "train": {"annotations": "{SPAN}/train.json", "images": "images"},
        "eval": {"annotations": "{SPAN}/eval.json"},
        "test": "always.json",
    }
    for number in (1, 2):
        (tmp_path / str(number)).mkdir()
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
    with pytest.raises(ConfigError, match=r"expected \{SPAN\}, or \{YYYY\}"):
        resolve_spans(path, RATIOS, SpanQuery())
