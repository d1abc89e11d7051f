from pipeline.init.summary import summary_data, summary_rows
from tests.support.dataset_files import picture, write_voc


def test_what_was_found_and_what_is_wrong_is_said_in_ten_lines(data, planned):
    (data.root / "images" / "7.jpg").unlink()
    data.add_box(999, [1, 1, 5, 5])
    rows = dict(summary_rows(planned()))
    assert len(rows) == 10 and all(rows.values())
    assert rows["format"].startswith("coco: ")
    assert rows["images"] == "60, 20 without objects; 40 x 30 pixels (59 were looked at)"
    assert rows["objects"] == "40, at most 1 an image: cat 40, dog 0"
    assert "million parameters" in rows["network"] and "multiply-adds" in rows["network"]
    assert rows["weights"].endswith("settings.yaml says how to get them")
    assert "40 boxes are too few" in rows["anchors"]
    fault = "1 of 60 image files that were opened cannot be read"
    assert rows["problems"].startswith(f"1 unknown_image; no object of dog; {fault}")
    assert "7.jpg" in rows["problems"]


def test_images_that_nobody_annotated_are_said(tmp_path, planned):
    folder = write_voc(tmp_path / "voc", names=[f"i{n}" for n in range(20)])
    for number in range(3):
        (tmp_path / "voc" / "JPEGImages" / f"x{number}.jpg").write_bytes(picture(seed=number))
    (tmp_path / "voc" / "ImageSets" / "Main" / "train.txt").unlink()
    plan = planned(folder, weights=False)
    assert ", and 3 without annotations, which are left out" in dict(summary_rows(plan))["images"]
    assert plan.value("data.unannotated_images") == "leave_out"


def test_names_that_are_alike_or_long_are_said(data, planned):
    data.categories += [{"id": 8, "name": "Cat "}, {"id": 9, "name": "d og"}]
    plan = planned(weights=False)
    assert "differ only in case or blanks: 'Cat ', 'cat'" in dict(summary_rows(plan))["problems"]
    assert summary_data(plan)["similar_classes"] == [["Cat ", "cat"], ["d og", "dog"]]
    data.categories = [{"id": 3, "name": "n" * 4_000}, *({"id": i, "name": f"{i}"} for i in range(4, 50))]
    plan = planned(weights=False)
    assert all(len(text) < 400 for _, text in summary_rows(plan))
    assert "no object of 4, 5, 6, 7 and 42 more" in dict(summary_rows(plan))["problems"]
    assert all(len(choice.reason) < 2_000 for choice in plan.config_choices)


def test_programs_are_told_numbers(planned):
    said = summary_data(planned(weights=False))
    counts = ("images", "objects", "most_objects", "steps", "batch_size", "multiply_adds")
    for name in (*counts, "unreadable_images"):
        assert type(said[name]) is int, name
    assert said["splits"].keys() == {"train", "eval"} and sum(said["splits"].values()) == 60
