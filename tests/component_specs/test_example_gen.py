from component_specs import ExampleGenJob
from component_specs.example_gen import DEFAULT_SPLITS, SPANS, SPLITS, Spans, span_order
from tests.component_specs.contract import carried


def test_splits_travel_as_json_sorted_by_name():
    assert carried(ExampleGenJob)["splits"] == '{"eval": 0.1, "test": 0.1, "train": 0.8}'
    by_location = {"train": {"images": "i", "annotations": "a.json"}, "eval": "e.json"}
    text = '{"eval": "e.json", "train": {"annotations": "a.json", "images": "i"}}'
    assert carried(ExampleGenJob, splits=by_location)["splits"] == text
    assert SPLITS.decode(text) == by_location
    ExampleGenJob(examples="e", data_path="d").splits["more"] = 1
    assert carried(ExampleGenJob)["splits"] == SPLITS.encode(DEFAULT_SPLITS)


def test_spans_of_the_two_kinds_of_splits():
    spans = Spans(train=("1", "2", "3"), evaluate=("3",))
    assert spans.of("train") == spans.all() == ("1", "2", "3")
    assert spans.of("eval") == spans.of("anything") == ("3",)
    assert Spans(evaluate=("4",)).all() == ("4",) and not Spans().all()
    assert SPANS.decode(SPANS.encode(spans)) == spans
    # Packages compiled by older versions hold this text.
    assert SPANS.encode(Spans(train=("1",))) == '{"train": ["1"], "evaluate": []}'
    assert span_order("7") == (8, "") and span_order("9" * 5000) == span_order("²") == (0, "")
