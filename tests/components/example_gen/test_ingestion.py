import gc
import json

import pytest

from component_specs.example_gen import Spans
from components.example_gen.ingestion import gather, read_dataset
from detection_core.data.label_map import label_map_from_names
from detection_core.datasets.annotated_images import Rejection
from detection_core.datasets.counts import Counts
from detection_core.errors import DataError
from tests.support.cases import cases
from tests.support.dataset_files import Coco, picture, voc_xml, write_voc
from tests.support.same_set import WRITERS

RATIOS = {"eval": 0.3, "train": 0.7}


def _ids(dataset):
    return {name: sorted(image.source_id for image in images) for name, images in dataset.splits.items()}


def test_the_splits_do_not_depend_on_the_order_in_the_file(tmp_path):
    data = Coco(tmp_path, images=20)
    forwards = read_dataset(data.write(), "coco", RATIOS, None)
    data.images.reverse()
    backwards = read_dataset(data.write(), "coco", RATIOS, None)
    for one, other in zip(forwards.splits.values(), backwards.splits.values(), strict=True):
        assert list(one) == list(other)
    assert sorted(i for ids in _ids(forwards).values() for i in ids) == sorted(str(n) for n in range(1, 21))
    assert all(_ids(forwards).values()) and forwards.annotated == 20


def test_given_splits_are_read_from_their_own_files_and_may_use_the_same_ids(tmp_path):
    Coco(tmp_path, images=3).write("a.json")
    Coco(tmp_path, images=2).write("b.json")
    dataset = read_dataset(str(tmp_path), "coco", {"train": "a.json", "eval": "b.json"}, None)
    assert _ids(dataset) == {"train": ["1", "2", "3"], "eval": ["1", "2"]}


def test_rejected_records_are_counted_in_a_split_too_and_named_with_their_span(tmp_path):
    path = write_voc(tmp_path / "span-04", "abcdefghijkl", b="no xml")
    dataset = read_dataset(path, "voc", RATIOS, None)
    assert sum(len(r) for r in dataset.rejected.values()) == 1
    assert dataset.annotated == 12
    spans = Spans(train=("4",), evaluate=("4",))
    dataset = read_dataset(str(tmp_path / "span-{SPAN:2}"), "voc", RATIOS, None, spans)
    [rejected] = [r for split in dataset.rejected.values() for r in split]
    assert rejected.record == "4/b"


def _with_more_images(tmp_path):
    """Two splits that share a folder of images, with some that nobody annotated."""
    for split, names in (("train", "abc"), ("eval", "de")):
        (tmp_path / split).mkdir()
        for name in names:
            (tmp_path / split / f"{name}.xml").write_text(voc_xml(name))
    (tmp_path / "eval" / "e.xml").write_text("no xml")
    (tmp_path / "images").mkdir()
    for name in "abcdexyz":
        (tmp_path / "images" / f"{name}.jpg").write_bytes(picture())
    return {split: {"annotations": split, "images": "images"} for split in ("train", "eval")}


# Never e, whose annotation cannot be read.
@cases(({}, "abc"), ({"unannotated_images": "background"}, "abcxyz"))
def test_images_without_annotations_are_counted_once_and_background_where_settings_say_so(
    tmp_path, *, given, train
):
    dataset = read_dataset(str(tmp_path), "voc", _with_more_images(tmp_path), None, **given)
    assert dataset.unannotated == {"train": 3} and dataset.background == bool(given)
    assert _ids(dataset) == {"train": [*train], "eval": ["d"]}


@cases(("auto", True), ("background", True), ("leave_out", False))
def test_an_image_without_a_label_file_is_background_in_yolo(tmp_path, *, choice, taken):
    WRITERS["yolo"](tmp_path)
    dataset = read_dataset(str(tmp_path), "yolo", {"train": 1.0}, None, unannotated_images=choice)
    assert dataset.unannotated == {"train": 1} and dataset.background == taken
    assert ("images/c.jpg" in _ids(dataset)["train"]) == taken


@cases(("csv", 2), ("labelme", 2), ("label_studio", 1), ("createml", 2), ("via", 2))
def test_other_formats_count_what_nobody_annotated(tmp_path, *, data_format, unannotated):
    WRITERS[data_format](tmp_path)
    for name in "xy":
        (tmp_path / "images" / f"{name}.jpg").write_bytes(picture())
    if data_format == "labelme":
        (tmp_path / "json" / "x.json").write_text("no json")
        (tmp_path / "images" / "z.jpg").write_bytes(picture())
    if data_format == "label_studio":
        tasks = json.loads((tmp_path / "export.json").read_text())
        tasks.append({"id": 9, "annotations": [], "data": {"image": "/data/upload/1/0123abcd-x.jpg"}})
        (tmp_path / "export.json").write_text(json.dumps(tasks))
    dataset = read_dataset(str(tmp_path), data_format, {"train": 1.0}, None)
    assert dataset.unannotated == {"train": unannotated}


def test_classes_of_all_splits_make_one_label_map(tmp_path):
    path = write_voc(tmp_path, d=voc_xml("d", label="ant"))
    for name, ids in (("train", "a\nb\n"), ("eval", "c\nd\n")):
        (tmp_path / "ImageSets" / "Main" / f"{name}.txt").write_text(ids)
    splits = {name: f"ImageSets/Main/{name}.txt" for name in ("train", "eval")}
    assert read_dataset(path, "voc", splits, None).label_map == label_map_from_names(["ant", "cat"])
    given = label_map_from_names(["dog", "cat"])
    assert read_dataset(Coco(tmp_path).write(), "coco", RATIOS, given).label_map is given


def test_a_split_without_images_is_an_error(tmp_path):
    path = Coco(tmp_path, images=1).write()
    with pytest.raises(DataError, match="found none"):
        read_dataset(path, "coco", RATIOS, None)
    # Garbage collection, which reading turns off, is on again.
    assert gc.isenabled()


def test_reports_add_up_and_a_split_in_quarantine_is_an_error(tmp_path):
    dataset = read_dataset(Coco(tmp_path, images=2).write(), "coco", {"train": 1}, None)
    full = {"counts": {"total": {"images": 1}}, "ranges": {}, "digests": ["x"]}
    report = {"split": "train", "counts": full, "rejected": [["2.jpg", "2", "empty_image", ""]]}
    counts = gather(dataset, [report])
    assert counts["train"].counts["total"]["images"] == 1
    assert list(dataset.rejected["train"]) == [Rejection("2.jpg", "2", "empty_image", "")]
    with pytest.raises(DataError, match="all in quarantine"):
        gather(dataset, [{**report, "counts": Counts().state()}])


def test_spans_are_read_into_the_splits_of_their_windows(tmp_path):
    for span in (1, 2, 3):
        Coco(tmp_path / f"span-{span}", images=20).write()
    spans = Spans(train=("2", "3"), evaluate=("3",))
    dataset = read_dataset(str(tmp_path / "span-{SPAN}"), "coco", RATIOS, None, spans)
    ids = _ids(dataset)
    assert {i.split("/")[0] for i in ids["train"]} == {"2", "3"}
    assert {i.split("/")[0] for i in ids["eval"]} == {"3"}
    # The same image in two spans, as a growing data set has it, is never in two splits.
    numbers = {name: {i.split("/")[1] for i in split} for name, split in ids.items()}
    assert not numbers["train"] & numbers["eval"]
    assert all(f"span-{image.source_id[0]}/" in image.path for image in dataset.splits["train"])


def test_given_splits_may_name_spans_and_a_fixed_set_beside_them(tmp_path):
    for span in (1, 2):
        Coco(tmp_path, images=span + 1).write(f"train-{span}.json")
    Coco(tmp_path, images=4, first_id=7).write("eval.json")
    splits = {"train": "train-{SPAN}.json", "eval": "eval.json"}
    spans = Spans(train=("1", "2"), evaluate=("2",))
    ids = _ids(read_dataset(str(tmp_path), "coco", splits, None, spans))
    assert ids["train"] == ["1/1", "1/2", "2/1", "2/2", "2/3"]
    assert len(ids["eval"]) == 4 and not any("/" in i for i in ids["eval"])
