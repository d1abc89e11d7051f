"""Data sets by Model Maker's names."""

import shutil
import tempfile

import pytest
import tensorflow as tf
from PIL import Image

from detection_core import ConfigError, DataError
from detection_core.datasets.annotated_images import Rejection
from detection_core.storage import files
from detflow.object_detector import DataLoader, Dataset, data_loader, record_cache
from detflow.object_detector.annotated_sets import AnnotatedSet, read_set
from tests.support.cases import refused
from tests.support.refusals import refused_at
from tests.support.scenes import SIDE, draw, write_coco, write_csv, write_voc

CLASSES = {1: "circle", 2: "square"}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("scenes")


@pytest.fixture(scope="module", autouse=True)
def scenes(root):
    scenes = draw(root / "images", 6)
    write_voc(root / "xml", scenes, difficult=0)
    write_coco(root / "all.json", scenes)
    return scenes


@pytest.fixture(scope="module")
def expected(scenes):
    """What `objects` finds of the scenes."""
    return {name: (1 + (label == "square"), box) for name, label, box in scenes}


def examples(loader):
    records = tf.data.TFRecordDataset(files.glob(loader.tfrecord_file_patten)).as_numpy_iterator()
    return [tf.train.Example.FromString(record).features.feature for record in records]


def objects(loader):
    """File name to class id and box in pixels of its only object."""
    found = {}
    for feature in examples(loader):
        name = feature["image/filename"].bytes_list.value[0].decode()
        sides = (
            feature[f"image/object/bbox/{side}"].float_list.value for side in ("xmin", "ymin", "xmax", "ymax")
        )
        box = tuple(round(value * SIDE) for values in sides for value in values) or None
        found[name] = (*feature["image/object/class/label"].int64_list.value, box)
    return found


def voc(root, **changes):
    arguments = {"images_dir": root / "images", "annotations_dir": root / "xml", "label_map": CLASSES}
    return DataLoader.from_pascal_voc(**(arguments | changes))


def test_pascal_voc_and_a_part_of_it(root, expected):
    loader = voc(root)
    assert len(loader) == loader.size == 6 and loader.label_map == CLASSES and objects(loader) == expected
    assert set(objects(voc(root, annotation_filenames=["1", "3"]))) == {"1.jpg", "3.jpg"}
    assert len(voc(root, max_num_images=2)) == 2
    assert objects(voc(root, ignore_difficult_instances=True))["0.jpg"] == (None,)
    with refused_at("annotation_filenames", "'9'", DataError):
        voc(root, annotation_filenames=["1", "9"])
    refused(DataError, "unknown_category", voc, root, label_map=["circle"])
    for name, value in (("num_shards", 0), ("num_shards", "3"), ("max_num_images", 2.5)):
        with refused_at(name):
            voc(root, **{name: value})


def test_a_cache_is_used_until_an_annotation_or_an_image_changes(root, tmp_path, scenes):
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    arguments = {"cache_dir": tmp_path / "cache", "cache_prefix_filename": "mine"}
    first = voc(copy, **arguments)
    meta = tmp_path / "cache" / "mine_meta_data.yaml"
    written = meta.stat().st_mtime_ns
    assert voc(copy, **arguments).tfrecord_file_patten == first.tfrecord_file_patten
    assert meta.stat().st_mtime_ns == written
    text = (copy / "xml" / "1.xml").read_text()
    (copy / "xml" / "1.xml").write_text(text.replace("<name>square", "<name>circle"))
    assert objects(voc(copy, **arguments))["1.jpg"][0] == 1 and meta.stat().st_mtime_ns > written
    assert len(DataLoader.from_cache(tmp_path / "cache" / "mine")) == 6
    path = write_csv(tmp_path / "boxes.csv", scenes, prefix=f"{copy}/images/")
    arguments["cache_prefix_filename"] = "other"
    first = DataLoader.from_csv(path, **arguments)[0]
    before = [feature["image/encoded"] for feature in examples(first)]
    Image.new("RGB", (SIDE, SIDE)).save(copy / "images" / "0.jpg")
    after = [feature["image/encoded"] for feature in examples(DataLoader.from_csv(path, **arguments)[0])]
    assert sum(old != new for old, new in zip(before, after, strict=True)) == 1


def test_a_csv_file_of_three_sets_and_with_paths_from_here(root, scenes, expected, tmp_path, monkeypatch):
    sets = ("TRAIN", "TRAIN", "TRAIN", "VALIDATION", "TEST", "TEST")
    for dialect in ({}, {"delimiter": ";"}, {"quotechar": "'", "quoting": 1}):
        path = write_csv(tmp_path / "boxes.csv", scenes, sets=sets, **dialect)
        dialect.pop("quoting", None)
        loaders = DataLoader.from_csv(path, images_dir=root / "images", **dialect)
        assert [len(loader) for loader in loaders] == [3, 1, 2]
        assert {name: value for loader in loaders for name, value in objects(loader).items()} == expected
        assert all(loader.label_map == CLASSES for loader in loaders)
    monkeypatch.chdir(root)
    path = write_csv(tmp_path / "boxes.csv", scenes, prefix="images/", sets=("TRAIN", "UNASSIGNED"))
    train, validation, test = DataLoader.from_csv(path)
    assert (len(train), validation, test) == (6, None, None)
    whole = write_csv(tmp_path / "whole.csv", scenes, prefix=f"{root}/images/", sets=("TEST",))
    assert objects(DataLoader.from_csv(whole)[2]) == expected
    monkeypatch.chdir(root / "images")
    whole = write_csv(tmp_path / "whole.csv", scenes, prefix=f"{root}/images/")
    assert len(DataLoader.from_csv(whole, images_dir=tmp_path)[0]) == 6
    assert len(DataLoader.from_csv(write_csv(tmp_path / "bare.csv", scenes))[0]) == 6
    assert len(DataLoader.from_csv(tmp_path / "bare.csv", images_dir=".")[0]) == 6
    (tmp_path / "head.csv").write_text("set,path,label,a,b,c,d,e,f,g,h\n" + whole.read_text())
    assert len(DataLoader.from_csv(tmp_path / "head.csv")[0]) == 6
    assert len(voc(root, images_dir=".", annotations_dir="../xml")) == 6


def test_a_csv_file_that_cannot_be_used(tmp_path, scenes):
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "other.csv").write_text("TRAIN\n")
    refused(DataError, "expected rows", DataLoader.from_csv, tmp_path / "empty.csv")
    with refused_at(f"{tmp_path}/other.csv:1", "images_dir", DataError):
        DataLoader.from_csv(tmp_path / "other.csv")
    with refused_at("delimiter"):
        DataLoader.from_csv(tmp_path / "other.csv", delimiter="")
    path = write_csv(tmp_path / "boxes.csv", [(name, "", box) for name, _, box in scenes], prefix="images/")
    path.write_text(path.read_text().replace("TRAIN,images/", f"TRAIN,{tmp_path}/"))
    refused(DataError, "found none", DataLoader.from_csv, path)


def test_any_folder_is_divided_or_has_splits(root, tmp_path, scenes, expected):
    shutil.copytree(root / "images", tmp_path / "whole" / "images")
    shutil.copy(root / "all.json", tmp_path / "whole")
    assert sum(len(loader) for loader in DataLoader.from_folder(tmp_path / "whole") if loader) == 6
    refused(ConfigError, "format", DataLoader.from_folder, tmp_path / "whole", "no-such-format")
    for split in ("train", "valid"):
        shutil.copytree(root / "images", tmp_path / "split" / split)
        write_coco(tmp_path / "split" / split / "_annotations.coco.json", scenes)
    train, validation, test = DataLoader.from_folder(tmp_path / "split")
    assert (len(train), len(validation), test) == (6, 6, None)
    loader = DataLoader.from_coco(root / "images", root / "all.json", max_num_images=4)
    assert objects(loader) == dict(list(expected.items())[:4])


def test_records_that_are_there_are_split(root, tmp_path, expected):
    (tmp_path / "map.pbtxt").write_text("item { id: 1 name: 'circle' }\nitem { id: 2 name: 'square' }\n")
    loader = DataLoader.from_tfrecords(voc(root).tfrecord_file_patten, tmp_path / "map.pbtxt")
    assert len(loader) == 6 and loader.label_map == CLASSES
    refused(DataError, "found none", DataLoader.from_tfrecords, tmp_path / "*.tfrecord", CLASSES)
    with refused_at("size"):
        DataLoader("x", 0, CLASSES)
    first, second = loader.split(0.5)
    assert (len(first), len(second)) == (3, 3) and objects(first) | objects(second) == expected
    for fraction in (0, 1, 0.01, 2, -1, "a"):
        with refused_at("fraction"):
            loader.split(fraction)


def test_temporary_records_go_with_what_keeps_their_folders(root, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(data_loader, "_temporary", [])
    loader = voc(root)
    for pattern in (loader.tfrecord_file_patten, loader.split(0.5)[0].tfrecord_file_patten):
        assert pattern.startswith(str(tmp_path))
    assert len(list(tmp_path.iterdir())) == len(data_loader._temporary) == 2
    data_loader._temporary.clear()  # at the end of the process, as its other objects
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    folder = tmp_path_factory.mktemp("voc")
    annotations = write_voc(folder / "xml", draw(folder / "images", 5))
    return read_set("voc", "", {"annotations": str(annotations), "images": str(folder / "images")}).images


def write(prefix, images, rejected=(), **changes):
    arguments = {"classes": CLASSES, "num_shards": 2, "made_from": "a"} | changes
    part = AnnotatedSet(images=list(images), rejected=list(rejected))
    record_cache.write_cache(str(prefix), part, **arguments)


def test_what_is_written_is_read_and_replaced_whole_and_so_is_one_of_model_maker_s(tmp_path, images):
    write(tmp_path / "train", images)
    written = [f"train-0000{n}-of-00002.tfrecord" for n in range(2)]
    assert sorted(path.name for path in tmp_path.iterdir()) == [*written, "train_meta_data.yaml"]
    found = record_cache.read_cache(str(tmp_path / "train"))
    assert (found.size, found.classes, found.made_from) == (5, CLASSES, "a")
    assert record_cache.is_current(str(tmp_path / "train"), "a")
    assert not record_cache.is_current(str(tmp_path / "train"), "b")
    write(tmp_path / "x", images, num_shards=100)  # no more files than images
    assert len(list(tmp_path.glob("x*.tfrecord"))) == 5
    write(tmp_path / "x", images[:2], num_shards=1)
    assert [path.name for path in tmp_path.glob("x*.tfrecord")] == ["x-00000-of-00001.tfrecord"]
    assert record_cache.read_cache(str(tmp_path / "x")).size == 2
    # As Model Maker writes it: all shards, COCO JSON and the metadata, without a fingerprint.
    (tmp_path / "train_annotations.json").write_text("{}")
    (tmp_path / "train_meta_data.yaml").write_text("label_map:\n  1: circle\n  2: square\nsize: 5\n")
    found = record_cache.read_cache(str(tmp_path / "train"))
    assert found.annotations == str(tmp_path / "train_annotations.json")
    assert record_cache.is_current(str(tmp_path / "train"), "anything")


DAMAGE = {
    "expected 5 images.*found 2": lambda folder: (folder / "x-00000-of-00002.tfrecord").unlink(),
    "with its metadata": lambda folder: (folder / "x_meta_data.yaml").unlink(),
    "size and label_map": lambda folder: (folder / "x_meta_data.yaml").write_text("size: many"),
    "TFRecord files, found none": lambda folder: [path.unlink() for path in folder.glob("*.tfrecord")],
    "x-00000-of-00002": lambda folder: (folder / "x-00000-of-00002.tfrecord").write_bytes(b"abc"),
}


def test_a_damaged_cache_is_refused_and_made_again(tmp_path, images):
    for number, (message, damage) in enumerate(DAMAGE.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        write(folder / "x", images)
        damage(folder)
        refused(DataError, message, record_cache.read_cache, str(folder / "x"))
        assert not record_cache.is_current(str(folder / "x"), "a")


def test_too_much_that_cannot_be_used_leaves_no_cache_and_a_little_is_left_out(tmp_path, images, caplog):
    write(tmp_path / "x", images)
    rejected = [Rejection("a.xml", "a", "malformed_record", "no size")]
    with pytest.raises(DataError, match=r"malformed_record 1.*mend the data") as caught:
        write(tmp_path / "x", images, rejected=rejected)
    assert caught.value.where == str(tmp_path / "x_quarantine.jsonl")
    assert [path.name for path in tmp_path.iterdir()] == ["x_quarantine.jsonl"]
    refused(DataError, "annotated images, found none", write, tmp_path / "y", [])
    write(tmp_path / "x", images * 20, rejected=rejected)
    assert record_cache.read_cache(str(tmp_path / "x")).size == 100
    assert "1 of 101 images are left out: malformed_record 1" in caplog.text


def test_a_folder(tmp_path):
    folder, nothing = tmp_path / "scenes", tmp_path / "nothing"
    scenes = draw(folder / "images", 5)
    write_voc(folder / "Annotations", scenes)
    write_coco(folder / "labels.json", scenes, background=True)
    for name, read in (("coco", Dataset.from_coco_folder), ("voc", Dataset.from_pascal_voc_folder)):
        data = read(folder, cache_dir=tmp_path / name)
        assert isinstance(data, Dataset) and (len(data), data.size, data.num_classes) == (5, 5, 3)
        assert data.label_names == ["background", "circle", "square"]
        (meta,) = (tmp_path / name).glob("*_meta_data.yaml")
        written = meta.stat().st_mtime_ns
        assert len(read(folder, cache_dir=tmp_path / name)) == 5 and meta.stat().st_mtime_ns == written
        first, second = data.split(0.4)
        assert isinstance(first, Dataset) and (len(first), len(second)) == (2, 3)
        assert len(read(folder, max_num_images=2)) == 2
        assert len(Dataset.from_cache(str(meta).removesuffix("_meta_data.yaml"))) == 5
    nothing.mkdir()
    refused(DataError, r"labels\.json", Dataset.from_coco_folder, nothing)
    refused(DataError, "Annotations", Dataset.from_pascal_voc_folder, nothing)
    with refused_at("max_num_images"):
        Dataset.from_coco_folder(folder, max_num_images=0)
