"""Data sets of any format that are converted to COCO JSON."""

import json
import os

import pytest

from detection_core.datasets.classes import make_label_map
from detection_core.datasets.dataset_conversion import convert_to_coco
from detection_core.datasets.encoding import make_example
from detection_core.datasets.layout_search import find_layout
from detection_core.datasets.readers import READERS, find_reader
from detection_core.errors import ConfigError, DataError
from tests.support.cases import cases
from tests.support.dataset_files import Coco, picture, voc_xml, whole
from tests.support.same_set import IMAGES, WITH_OUTLINES, WRITERS


def _records(layout):
    found = whole(find_reader(layout.format).read_split(layout.path, None, None))
    label_ids = make_label_map([found.categories]).ids_by_text
    plain = [
        image._replace(
            source_id=os.path.basename(image.filename),
            filename=os.path.basename(image.filename),
            objects=[
                item._replace(
                    label="", pose=None, truncated=None, difficult=None, occluded=None,
                    box=tuple(round(at, 4) for at in item.box), area=0.0, mask=None,
                )
                for item in image.objects
            ],
        )
        for image in found.images
    ]  # fmt: skip
    return [make_example(image, label_ids).data for image in sorted(plain, key=lambda image: image.source_id)]


@cases(*READERS)
def test_a_converted_set_makes_the_records_of_the_one_it_was(tmp_path, *, data_format):
    WRITERS[data_format](tmp_path / "in")
    made = convert_to_coco(str(tmp_path / "in"), str(tmp_path / "out"))
    assert (made.layout.format, made.images, made.objects) == (data_format, len(IMAGES), 3)
    assert made.files == {"": "annotations.json"} and not any(made.rejected.values())
    assert not (tmp_path / "out" / "quarantine.jsonl").exists()
    layout = find_layout(str(tmp_path / "out"))
    assert layout.format == "coco" and _records(layout) == _records(made.layout)
    content = json.loads((tmp_path / "out" / "annotations.json").read_text())
    outlined = [a for a in content["annotations"] if "segmentation" in a]
    assert len(outlined) == (data_format in (*WITH_OUTLINES, "coco"))


def test_splits_stay_splits_and_images_are_links_or_copies(tmp_path):
    for split in ("train", "val"):
        (tmp_path / "in" / split).mkdir(parents=True)
        (tmp_path / "in" / split / "a.jpg").write_bytes(picture())
        (tmp_path / "in" / split / "a.xml").write_text(voc_xml("a"))
    made = convert_to_coco(str(tmp_path / "in"), str(tmp_path / "out"))
    files = {split: f"annotations/instances_{split}.json" for split in ("train", "eval")}
    assert made.files == files
    places = {split: {"annotations": path, "images": f"images/{split}"} for split, path in files.items()}
    assert find_layout(str(tmp_path / "out")).splits == places
    source = tmp_path / "in" / "train" / "a.jpg"
    assert (tmp_path / "out" / "images" / "train" / "a.jpg").samefile(source)
    convert_to_coco(str(tmp_path / "in"), str(tmp_path / "copied"), copy=True)
    copy = tmp_path / "copied" / "images" / "train" / "a.jpg"
    assert copy.read_bytes() == source.read_bytes() and not copy.samefile(source)


def test_what_cannot_be_used_is_listed(tmp_path):
    data = Coco(tmp_path / "in", images=3)
    data.add_image(9, name="none.jpg", data=b"")
    data.add_image(10, name="../out.jpg", data=b"")
    data.write()
    made = convert_to_coco(str(tmp_path / "in"), str(tmp_path / "out"))
    lines = [json.loads(line) for line in (tmp_path / "out" / "quarantine.jsonl").read_text().splitlines()]
    reasons = sorted(line["reason"] for line in lines if "reason" in line)
    assert reasons == ["missing_image", "path_outside"] and made.images == 3


def test_nothing_is_overwritten_and_nothing_half_written(tmp_path):
    Coco(tmp_path / "in").write()
    (tmp_path / "out").mkdir()
    convert_to_coco(str(tmp_path / "in"), str(tmp_path / "out"))
    with pytest.raises(ConfigError, match="holds something; name another"):
        convert_to_coco(str(tmp_path / "in"), str(tmp_path / "out"))
    for path in (tmp_path / "in" / "images").iterdir():
        path.unlink()
    with pytest.raises(DataError, match="expected images that can be used, found none"):
        convert_to_coco(str(tmp_path / "in"), str(tmp_path / "other"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]
    with pytest.raises(DataError, match="of the format voc, found others"):
        convert_to_coco(str(tmp_path / "in"), str(tmp_path / "other"), "voc")
