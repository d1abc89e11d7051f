import pytest

from detection_core import DataError
from detection_core.datasets.annotated_images import Rejection
from detflow.object_detector import record_cache
from detflow.object_detector.annotated_sets import read_set
from tests.support.cases import refused
from tests.support.scenes import draw, write_voc

CLASSES = {1: "circle", 2: "square"}


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    folder = tmp_path_factory.mktemp("voc")
    annotations = write_voc(folder / "xml", draw(folder / "images", 5))
    return read_set("voc", "", {"annotations": str(annotations), "images": str(folder / "images")}).images


def write(prefix, images, **changes):
    arguments = {"rejected": (), "classes": CLASSES, "num_shards": 2, "made_from": "a"} | changes
    record_cache.write_cache(str(prefix), images, **arguments)


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
