import re

import pytest

from detection_core.datasets.layouts import Layout
from detection_core.errors import DataError
from pipeline.init.settings_choice import (
    choose_ratios,
    data_choices,
    evaluate_choices,
    export_choices,
    pipeline_name,
    quantize_choices,
)
from tests.pipeline.init.looked_at import seen
from tests.support.cases import refused

LAYOUT = Layout(format="voc", path="/data", splits={"train": 0.8, "eval": 0.2}, evidence="4 files")


def test_a_name_is_made_of_any_folder():
    for folder in ("/a/blood cells", "x/été 2", "/", "___", "-9", "a" * 300, "mine"):
        assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}", pipeline_name(folder)), folder
    assert pipeline_name("/a/blood cells/") == "blood-cells"


def test_no_split_is_left_without_images_or_objects():
    for images, more in ((4_000, {"test"}), (120, set()), (6, set())):
        data = seen(images=images)
        ratios, reason = choose_ratios(data)
        assert set(ratios) == {"train", "eval"} | more and sum(ratios.values()) == pytest.approx(1)
        assert all(data.count(name, ratios) for name in ratios)
        assert f"{data.count('train', ratios):,} train" in reason
    refused(DataError, "found 1; annotate more", choose_ratios, seen(images=1))
    every_fifth = [1, 0, 0, 0, 0]
    annotated = [*every_fifth * 15, *[0] * 25]  # what would be eval has nothing to measure
    data = seen(images=20, positions=tuple(every_fifth * 20), annotated_positions=tuple(annotated))
    ratios, _ = choose_ratios(data)
    assert all(data.count_annotated(name, ratios) for name in ratios)


def test_a_small_set_may_have_some_broken_files_and_is_decoded_whole():
    def values(images, **changed):
        data = seen(images=images, **changed)
        return {c.path: c.value for c in data_choices(LAYOUT, LAYOUT.splits, "as it is", data)}

    small, large = values(300), values(100_000)
    assert small["data.quarantine_limit"] == 0.05 and small["data.decode_images"] == "all"
    assert "data.quarantine_limit" not in large and "data.decode_images" not in large
    assert values(100_000, rejected={"unknown_image": 3})["data.quarantine_limit"] == 0.01
    assert small["data.path"] == "/data" and small["data.format"] == "voc"


def test_measured_is_on_the_split_that_nothing_is_chosen_by():
    for splits, split in (
        ({"eval": 50, "test": 60}, "test"),
        ({"eval": 50}, "eval"),
        ({"eval": 9, "test": 0}, "eval"),
    ):
        assert next(iter(evaluate_choices(splits))).value == split
    chosen = [{c.path: c.value for c in evaluate_choices({"eval": count})} for count in (50, 5_000)]
    (few,), (many,) = (values["evaluate.thresholds"].values() for values in chosen)
    assert few["min_change"] < many["min_change"] < 0 < few["lower_bound"]


def test_quantization_is_shorter_than_the_training_and_full_pictures_keep_their_detections():
    (choice,) = quantize_choices(5_000, 0.08)
    values = {path.rpartition(".")[2]: value for path, value in choice.value.items()}
    assert values["num_steps"] == values["total_steps"] == 500
    assert values["learning_rate_base"] == 0.004 and isinstance(values["total_steps"], int)
    assert values["warmup_steps"] < 500
    assert [c.path for c in export_choices(seen(most=12), 50)] == ["export.max_map_drop"]
    assert next(iter(export_choices(seen(most=233), 50))).value == 240
    assert next(iter(export_choices(seen(most=300_000), 50))).value == 1_000
