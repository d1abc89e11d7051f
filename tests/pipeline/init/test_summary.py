from __future__ import annotations

import pytest

from detection_core.zoo.cache import CACHE_VARIABLE, MIRROR_VARIABLE
from pipeline.init.plan import Request, make_plan
from pipeline.init.summary import summary_data, summary_rows
from tests.pipeline.init.looked_at import LAPTOP
from tests.support.dataset_files import Coco, picture, write_voc


@pytest.fixture
def rows(tmp_path, monkeypatch):
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv(MIRROR_VARIABLE, str(tmp_path / "mirror"))
    data = Coco(tmp_path / "data", images=60)
    (tmp_path / "data" / "images" / "7.jpg").unlink()
    data.add_box(999, [1, 1, 5, 5])
    return dict(summary_rows(make_plan(Request(data=data.write(), folder="mine"), LAPTOP)))


def test_what_was_found_is_said_in_ten_lines(rows):
    assert len(rows) == 10 and all(rows.values())
    assert rows["format"].startswith("coco: ")
    assert rows["images"] == "60, 20 without objects; 40 x 30 pixels (59 were looked at)"
    assert rows["objects"] == "40, at most 1 an image: cat 40, dog 0"
    assert "million parameters" in rows["network"] and "multiply-adds" in rows["network"]
    assert rows["weights"].endswith("settings.yaml says how to get them")
    assert "40 boxes are too few" in rows["anchors"]


def test_images_that_nobody_annotated_are_said(tmp_path):
    data = write_voc(tmp_path / "data", names=[f"i{n}" for n in range(20)])
    for number in range(3):
        (tmp_path / "data" / "JPEGImages" / f"x{number}.jpg").write_bytes(picture(seed=number))
    (tmp_path / "data" / "ImageSets" / "Main" / "train.txt").unlink()
    plan = make_plan(Request(data=data, folder="mine", weights=False), LAPTOP)
    assert ", and 3 without annotations, which are left out" in dict(summary_rows(plan))["images"]
    assert plan.value("data.unannotated_images") == "leave_out"


def test_what_is_wrong_is_said(rows):
    fault = "1 of 60 image files that were opened cannot be read"
    assert rows["problems"].startswith(f"1 unknown_image; no object of dog; {fault}")
    assert "7.jpg" in rows["problems"]


def test_classes_that_differ_only_in_case_or_blanks_are_said(tmp_path):
    data = Coco(tmp_path / "data", images=60)
    data.categories += [{"id": 8, "name": "Cat "}, {"id": 9, "name": "d og"}]
    plan = make_plan(Request(data=data.write(), folder="mine", weights=False), LAPTOP)
    assert "differ only in case or blanks: 'Cat ', 'cat'" in dict(summary_rows(plan))["problems"]
    assert summary_data(plan)["similar_classes"] == [["Cat ", "cat"], ["d og", "dog"]]


def test_programs_are_told_numbers(tmp_path):
    data = Coco(tmp_path / "data", images=60).write()
    said = summary_data(make_plan(Request(data=data, folder="mine", weights=False), LAPTOP))
    counts = (
        "images",
        "objects",
        "most_objects",
        "steps",
        "batch_size",
        "multiply_adds",
        "unreadable_images",
    )
    assert all(type(said[name]) is int for name in counts)
    assert said["splits"].keys() == {"train", "eval"} and sum(said["splits"].values()) == 60


def test_names_of_any_length_are_shown_in_a_line(tmp_path):
    data = Coco(tmp_path / "data", images=60)
    data.categories = [{"id": 3, "name": "n" * 4_000}, *({"id": i, "name": f"{i}"} for i in range(4, 50))]
    request = Request(data=data.write(), folder="mine", weights=False)
    plan = make_plan(request, LAPTOP)
    assert all(len(text) < 400 for _, text in summary_rows(plan))
    assert "no object of 4, 5, 6, 7 and 42 more" in dict(summary_rows(plan))["problems"]
    assert all(len(choice.reason) < 2_000 for choice in plan.config_choices)
