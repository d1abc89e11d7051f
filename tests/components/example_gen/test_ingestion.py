"""From annotations to shards: splits, task records, workers."""

import gc
import json
import marshal
import math
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from component_specs.example_gen import Spans
from components.example_gen import shards as writing
from components.example_gen.image_index import pack_record, read_record
from components.example_gen.ingestion import gather
from components.example_gen.shards import (
    IN_PROCESS,
    ShardSettings,
    choose_arguments,
    read_reports,
    write_shard,
    write_tasks,
)
from detection_core.data.label_map import label_map_from_names
from detection_core.datasets import annotated_images as boxes
from detection_core.datasets.annotated_images import AnnotatedImage, AnnotatedObject, ImageLabel, Rejection
from detection_core.datasets.counts import Counts
from detection_core.errors import DataError
from detection_core.storage import files
from detection_core.storage.files import store_of
from tests.support.beam_programs import shards, worker_pool
from tests.support.cases import cases
from tests.support.dataset_files import Coco, picture, voc_xml, write_voc
from tests.support.input_data import read
from tests.support.object_store import s3_server
from tests.support.same_set import WRITERS

RATIOS = {"eval": 0.3, "train": 0.7}


def _ids(dataset):
    return {name: sorted(image.source_id for image in images) for name, images in dataset.splits.items()}


def test_the_splits_do_not_depend_on_the_order_in_the_file(tmp_path):
    data = Coco(tmp_path, images=20)
    forwards = read(data.write(), "coco", RATIOS, None)
    data.images.reverse()
    backwards = read(data.write(), "coco", RATIOS, None)
    for one, other in zip(forwards.splits.values(), backwards.splits.values(), strict=True):
        assert list(one) == list(other)
    assert sorted(i for ids in _ids(forwards).values() for i in ids) == sorted(str(n) for n in range(1, 21))
    assert all(_ids(forwards).values()) and forwards.annotated == 20


def test_given_splits_are_read_from_their_own_files_and_may_use_the_same_ids(tmp_path):
    Coco(tmp_path, images=3).write("a.json")
    Coco(tmp_path, images=2).write("b.json")
    dataset = read(str(tmp_path), "coco", {"train": "a.json", "eval": "b.json"}, None)
    assert _ids(dataset) == {"train": ["1", "2", "3"], "eval": ["1", "2"]}


def test_rejected_records_are_counted_in_a_split_too_and_named_with_their_span(tmp_path):
    path = write_voc(tmp_path / "span-04", "abcdefghijkl", b="no xml")
    dataset = read(path, "voc", RATIOS, None)
    assert sum(len(r) for r in dataset.rejected.values()) == 1
    assert dataset.annotated == 12
    spans = Spans(train=("4",), evaluate=("4",))
    dataset = read(str(tmp_path / "span-{SPAN:2}"), "voc", RATIOS, None, spans)
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
def test_images_without_annotations_are_counted_once_and_background_where_asked(tmp_path, *, given, train):
    dataset = read(str(tmp_path), "voc", _with_more_images(tmp_path), None, **given)
    assert dataset.unannotated == {"train": 3} and dataset.background == bool(given)
    assert _ids(dataset) == {"train": [*train], "eval": ["d"]}


@cases(("auto", True), ("background", True), ("leave_out", False))
def test_an_image_without_a_label_file_is_background_in_yolo(tmp_path, *, choice, taken):
    WRITERS["yolo"](tmp_path)
    dataset = read(str(tmp_path), "yolo", {"train": 1.0}, None, unannotated_images=choice)
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
    dataset = read(str(tmp_path), data_format, {"train": 1.0}, None)
    assert dataset.unannotated == {"train": unannotated}


def test_classes_of_all_splits_make_one_label_map(tmp_path):
    path = write_voc(tmp_path, d=voc_xml("d", label="ant"))
    for name, ids in (("train", "a\nb\n"), ("eval", "c\nd\n")):
        (tmp_path / "ImageSets" / "Main" / f"{name}.txt").write_text(ids)
    splits = {name: f"ImageSets/Main/{name}.txt" for name in ("train", "eval")}
    assert read(path, "voc", splits, None).label_map == label_map_from_names(["ant", "cat"])
    given = label_map_from_names(["dog", "cat"])
    assert read(Coco(tmp_path).write(), "coco", RATIOS, given).label_map == given


def test_classes_whose_names_are_nearly_the_same_are_told(tmp_path, caplog):
    write_voc(tmp_path, b=voc_xml("b", label="Cat"), c=voc_xml("c", label="dog"))
    read(str(tmp_path), "voc", {"train": 1.0})
    (line,) = caplog.messages
    assert line.endswith("classes whose names differ only in case or blanks: 'Cat', 'cat'")


def test_a_split_without_images_is_an_error(tmp_path):
    path = Coco(tmp_path, images=1).write()
    with pytest.raises(DataError, match="found none"):
        read(path, "coco", RATIOS, None)
    # Garbage collection, which reading turns off, is on again.
    assert gc.isenabled()


def test_reports_add_up_and_a_split_in_quarantine_is_an_error(tmp_path):
    dataset = read(Coco(tmp_path, images=2).write(), "coco", {"train": 1}, None)
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
    dataset = read(str(tmp_path / "span-{SPAN}"), "coco", RATIOS, None, spans)
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
    ids = _ids(read(str(tmp_path), "coco", splits, None, spans))
    assert ids["train"] == ["1/1", "1/2", "2/1", "2/2", "2/3"]
    assert len(ids["eval"]) == 4 and not any("/" in i for i in ids["eval"])


PLAIN = AnnotatedObject("cat", (1.0, 2.5, 3.0, 4.0), 7.5, 0, None, None, None, "annotation 1")
IMAGE = AnnotatedImage("1", "ä \udcff.jpg", "/x/ä \udcff.jpg", 40, 30, [PLAIN])


def _again(image):
    return read_record(marshal.loads(pack_record(image)))


def test_every_field_comes_back():
    assert _again(IMAGE) == IMAGE
    numpy = PLAIN._replace(box=tuple(np.array(PLAIN.box)), keypoints=[tuple(np.array([1.5, 2.0, 2.0]))])
    assert _again(IMAGE._replace(objects=[numpy])).objects == [PLAIN._replace(keypoints=[(1.5, 2.0, 2)])]
    rest = {"keypoints": [(1.5, 2.0, 2)], "group_of": 1, "occluded": 0, "depiction": 1, "confidence": 0.5}
    full = PLAIN._replace(**rest, weight=0.25, mask=boxes.RunLengths(30, 40, [1200]))
    packed = PLAIN._replace(mask=boxes.RunLengths(30, 40, "PQ"))
    image = IMAGE._replace(
        objects=[full, packed, PLAIN._replace(mask=boxes.MaskFile("/m.png")), PLAIN._replace(weight=2.0)],
        labels=[ImageLabel("dog", 0.0), ImageLabel("cat")],
    )
    assert _again(image) == image
    image = IMAGE._replace(in_fractions=True, example="part:1+2:/a.record")
    assert _again(image) == image and _again(image._replace(labels=[ImageLabel("dog")])).in_fractions


def test_polygons_come_back_to_the_last_bit():
    rings = [[0.1, 1 / 3, 1e-300, 5.0, 6.0, 7.0], [1, 2, 3, 4, 5, 6]]
    [found] = _again(IMAGE._replace(objects=[PLAIN._replace(mask=boxes.Polygons(rings))])).objects
    assert [ring.tolist() for ring in map(np.asarray, found.mask.rings)] == rings
    [found] = _again(IMAGE._replace(objects=[PLAIN._replace(box=(float("nan"), 0.0, 1.0, 1.0))])).objects
    assert math.isnan(found.box[0])


NUMBERS = st.floats(allow_nan=False) | st.floats(-1e4, 1e4)
BOXES, TEXTS = st.tuples(*[NUMBERS] * 4), st.text(st.characters(), max_size=8)


@given(st.lists(st.tuples(TEXTS, BOXES, NUMBERS), max_size=4), TEXTS, st.integers(0, 1 << 70))
def test_any_numbers_and_texts_come_back(objects, name, width):
    items = [PLAIN._replace(name=label, box=box, area=area) for label, box, area in objects]
    image = IMAGE._replace(objects=items, filename=name, width=width)
    assert _again(image) == image


def _tasks(tmp_path, images=7, shard_examples=3, compression=""):
    dataset = read(Coco(tmp_path / "data", images=images).write(), "coco", {"train": 1}, None)
    out = tmp_path / "out"
    settings = ShardSettings(label_ids=dataset.label_map.ids_by_text, compression=compression)
    return out, write_tasks(str(out), "train", dataset.splits["train"], shard_examples, settings)


def test_records_are_divided_evenly_and_in_order(tmp_path):
    _, tasks = _tasks(tmp_path)
    assert list(tasks.values()) == [2, 2, 3]
    names = []
    for index, (path, count) in enumerate(tasks.items()):
        task = marshal.loads(Path(path).read_bytes())
        assert task["index"] == index and len(task["images"]) == count
        names += [read_record(marshal.loads(packed)).source_id for packed in task["images"]]
    assert len(set(names)) == 7


@cases(("", ""), ("GZIP", ".gz"))
def test_a_shard_is_named_for_its_place_and_the_same_twice(tmp_path, monkeypatch, *, compression, suffix):
    out, tasks = _tasks(tmp_path, compression=compression)
    for path in tasks:
        assert write_shard(path) == tasks[path]
    before = {path.name: path.read_bytes() for path in (out / "Split-train").iterdir()}
    assert sorted(before) == [f"examples-{n:05d}-of-00003.tfrecord{suffix}" for n in range(3)]
    monkeypatch.setattr("time.time", lambda: 0.0)
    write_shard(list(tasks)[1])
    assert {path.name: path.read_bytes() for path in (out / "Split-train").iterdir()} == before


def test_a_bad_image_is_left_out_and_reported(tmp_path):
    out, (task, *_) = _tasks(tmp_path, shard_examples=100)
    (tmp_path / "data" / "images" / "3.jpg").unlink()
    assert write_shard(task) == 6
    (report,) = read_reports(str(out))
    assert report["split"] == "train" and report["counts"]["counts"]["total"]["images"] == 6
    assert report["rejected"] == [["3.jpg", "3", "missing_image", "the file does not exist"]]


def test_processes_are_started_only_where_that_pays():
    for images in ((1000, 16), (10_000_000, 1), (50_000, 2)):
        assert choose_arguments(*images) == IN_PROCESS
    assert "--direct_num_workers=16" in choose_arguments(50_000, 16)
    assert "--direct_running_mode=multi_processing" in choose_arguments(118_000, 2)
    for images in (1, 10_000_000):
        assert "--runner=FnApiRunner" in choose_arguments(images, 8)


def test_waiting_for_many_shards_takes_few_requests(monkeypatch):
    monkeypatch.setattr(writing, "_POLL_SECONDS", 0.02)
    advanced, requests = [], []
    monkeypatch.setattr(writing.Progress, "advance", lambda self, amount: advanced.append(amount))
    with s3_server() as bucket:
        tasks = {f"{bucket}/examples/.work/train-{i:05d}.task": 10 for i in range(500)}
        events = store_of(bucket).file_system.s3.meta.events
        count = lambda model, **_: requests.append(model.name)  # noqa: E731
        events.register_first("before-call.s3", count)
        try:
            with writing._watched(tasks):
                for number in range(3):
                    files.write_text(f"{bucket}/examples/.work/train-{number:05d}.report.json", "{}")
                until = time.monotonic() + 60
                while sum(advanced) < 30 and time.monotonic() < until:
                    time.sleep(0.01)
        finally:
            events.unregister("before-call.s3", count)
    assert sum(advanced) == 30
    assert "HeadObject" not in requests and requests.count("PutObject") == 3


def test_a_worker_pool_writes_the_same_bytes(tmp_path):
    """Beam's portable interface, ExampleGen's Python in a worker pool: how it runs on Flink."""
    Coco(tmp_path / "data", images=9).write("train.json")
    with worker_pool(tmp_path / "pool.log") as (_, external):
        portable = ("--runner=PortableRunner", "--job_endpoint=embed", *external)
        made = shards(tmp_path / "data", tmp_path / "pool", *portable)
    assert len(made) == 3 and made == shards(tmp_path / "data", tmp_path / "here")
    assert "Starting worker" in (tmp_path / "pool.log").read_text()
