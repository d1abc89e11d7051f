"""Workers find in many annotation files what one process finds, whatever the runner."""

import functools
import shutil

import pytest

from components.example_gen.file_reading import on_workers
from components.example_gen.ingestion import read_dataset
from components.runtime.beam_pipeline import IN_PROCESS
from detection_core.data.record_format import write_record
from detection_core.errors import DataError
from tests.support.cases import refused
from tests.support.dataset_files import picture, stored_image, write_files, write_voc
from tests.support.input_data import find
from tests.support.record_files import encode_example, object_columns
from tests.support.same_set import WRITERS

IN_MEMORY = IN_PROCESS[:2]
"""Beam's runner in this process. `on_workers` leaves out the pipeline for IN_PROCESS itself."""


def contents(path, data_format, splits, spread=None):
    """Everything that is known of a data set after reading."""
    data = find(str(path), data_format, splits)
    dataset = read_dataset(data, None, spread=spread) if spread else read_dataset(data, None)
    return (
        {name: list(images.packed()) for name, images in dataset.splits.items()},
        {name: list(rejected) for name, rejected in dataset.rejected.items()},
        [*dataset.label_map.items],
        dataset.keypoint_names,
        dataset.unannotated,
    )


def by_workers(folder, *arguments):
    return functools.partial(on_workers, folder=str(folder), beam_args=arguments or IN_MEMORY)


NAMES = "abcdefgh"


def write_set(root, data_format):
    """Write eight images: two with a damaged annotation, one without. TFRecord: twice the same records."""
    if data_format == "voc":
        write_voc(
            root, NAMES, b="<annotation><object>", e="<annotation><size><width>x</width></size></annotation>"
        )
        write_files(root, {"JPEGImages/another.jpg": picture(seed=9)})
    elif data_format == "yolo":
        labels = {f"labels/{name}.txt": "0 0.5 0.5 0.5 0.5" for name in NAMES}
        images = {f"images/{name}.jpg": picture(seed=seed) for seed, name in enumerate(f"{NAMES}i")}
        damaged = {"labels/b.txt": "7 0.5 0.5 0.5 0.5", "labels/e.txt": "0 1"}
        write_files(root, {**images, **labels, **damaged, "data.yaml": "train: images\nnames: [cat]\n"})
    else:
        WRITERS[data_format](root)
        (written,) = [path for path in root.iterdir() if path.suffix != ".pbtxt"]
        shutil.copy(written, written.with_name(f"b-{written.name}"))


@pytest.mark.parametrize("data_format", ["voc", "yolo", "tfrecord"])
def test_parts_read_by_workers_are_those_of_one_process(tmp_path, data_format):
    root, work = tmp_path / "data", tmp_path / "work"
    write_set(root, data_format)
    for number, splits in enumerate(({"train": 0.5, "eval": 0.5}, {"train": 1.0})):
        here = contents(root, data_format, splits)
        assert sum(map(len, here[1].values())) == (3 if data_format == "tfrecord" else 2)
        assert contents(root, data_format, splits, by_workers(work / str(number))) == here
    assert len(list(work.rglob("*.found"))) >= 4


def test_lists_and_folders_of_images_are_parts_of_what_workers_read(tmp_path):
    write_voc(tmp_path / "data", b="<annotation>")
    (tmp_path / "data" / "eval.txt").write_text("c\nd\n")
    splits = {"train": "ImageSets/Main/train.txt", "eval": {"images": "eval.txt"}}
    here = contents(tmp_path / "data", "voc", splits)
    assert [len(images) for images in here[0].values()] == [2, 3]
    assert contents(tmp_path / "data", "voc", splits, by_workers(tmp_path / "work")) == here


def write_records(root, ids):
    """Write a file of one record for each id of its class."""
    sides = {"xmin": [0.25], "ymin": [0.5], "xmax": [0.5], "ymax": [1.0]}
    for name, number in zip("abc", ids, strict=True):
        columns = object_columns(sides, label=[number], text=["cat"])
        with (root / f"{name}.record").open("wb") as out:
            write_record(out, encode_example(stored_image(picture(), source_id=name), columns))


def test_an_error_of_the_user_s_is_raised_as_in_one_process(tmp_path):
    write_records(tmp_path, ids=(7, 7, 8))
    with (tmp_path / "b.record").open("ab") as out:
        out.write(b"cut")
    messages = {
        str(refused(DataError, "b.record", contents, tmp_path, "tfrecord", {"train": 1.0}, spread))
        for spread in (None, by_workers(tmp_path / "work"))
    }
    assert len(messages) == 1 and "expected record 1 of a TFRecord file" in messages.pop()


def test_a_single_file_and_formats_of_one_file_are_read_here(tmp_path):
    WRITERS["tfrecord"](tmp_path / "records")
    WRITERS["coco"](tmp_path / "coco")
    for data_format, folder in (("tfrecord", "records"), ("coco", "coco")):
        here = contents(tmp_path / folder, data_format, {"train": 1.0})
        assert contents(tmp_path / folder, data_format, {"train": 1.0}, by_workers(tmp_path / "work")) == here
    assert not (tmp_path / "work").exists()


def test_a_class_with_two_ids_in_two_lists_is_refused_as_in_one_process(tmp_path):
    write_records(tmp_path, ids=(7, 7, 8))
    messages = {
        str(refused(DataError, "c.record", contents, tmp_path, "tfrecord", {"train": 1.0}, spread))
        for spread in (None, by_workers(tmp_path / "work"))
    }
    assert len(messages) == 1 and "one id for the class 'cat', found 7 and 8" in messages.pop()
