import json

from detection_core.datasets.dataset_conversion import convert_to_coco
from detection_core.datasets.layout_search import find_layout
from detection_core.datasets.readers import READERS, find_reader
from detection_core.errors import ConfigError, DataError
from tests.support.cases import cases, refused
from tests.support.dataset_files import Coco, picture, subfolder, voc_xml, write_files
from tests.support.same_set import IMAGES, WITH_OUTLINES, WRITERS, common_records


@cases(*READERS)
def test_a_converted_set_makes_the_records_of_the_one_it_was(tmp_path, *, data_format):
    WRITERS[data_format](tmp_path / "in")
    made = _convert(tmp_path)
    assert (made.layout.format, made.images, made.objects) == (data_format, len(IMAGES), 3)
    assert made.files == {"": "annotations.json"} and not any(made.rejected.values())
    assert not (tmp_path / "out" / "quarantine.jsonl").exists()
    layout = find_layout(str(tmp_path / "out"))
    read = [find_reader(each.format).read_split(each.path, None, None) for each in (layout, made.layout)]
    copied, records = map(common_records, read)
    assert layout.format == "coco" and copied == records and len(records) == len(IMAGES)
    content = json.loads((tmp_path / "out" / "annotations.json").read_text())
    outlined = [a for a in content["annotations"] if "segmentation" in a]
    assert len(outlined) == (data_format in (*WITH_OUTLINES, "coco"))


def _convert(root, *options, to="out", **more):
    return convert_to_coco(str(root / "in"), str(root / to), *options, **more)


def test_splits_stay_splits_and_images_are_links_or_copies(tmp_path):
    for split in ("train", "val"):
        write_files(tmp_path / "in" / split, {"a.jpg": picture(), "a.xml": voc_xml("a")})
    files = {split: f"annotations/instances_{split}.json" for split in ("train", "eval")}
    assert _convert(tmp_path).files == files
    places = {split: {"annotations": path, "images": f"images/{split}"} for split, path in files.items()}
    assert find_layout(str(tmp_path / "out")).splits == places
    source = tmp_path / "in" / "train" / "a.jpg"
    assert (tmp_path / "out" / "images" / "train" / "a.jpg").samefile(source)
    _convert(tmp_path, to="copied", copy=True)
    copy = tmp_path / "copied" / "images" / "train" / "a.jpg"
    assert copy.read_bytes() == source.read_bytes() and not copy.samefile(source)


def test_what_cannot_be_used_is_listed_and_nothing_overwritten_or_half_written(tmp_path):
    data = Coco(tmp_path / "in", images=3)
    data.add_image(9, name="none.jpg", data=b"")
    data.add_image(10, name="../out.jpg", data=b"")
    data.write()
    assert _convert(tmp_path).images == 3
    lines = [json.loads(line) for line in (tmp_path / "out" / "quarantine.jsonl").read_text().splitlines()]
    assert sorted(line["reason"] for line in lines if "reason" in line) == ["missing_image", "path_outside"]
    below = subfolder(tmp_path, 1)
    Coco(below / "in").write()
    (below / "out").mkdir()
    _convert(below)
    refused(ConfigError, "holds something; name another", _convert, below)
    for path in (below / "in" / "images").iterdir():
        path.unlink()
    (below / "out").rename(below / "done")
    refused(DataError, "expected images that can be used, found none", _convert, below)
    assert sorted(path.name for path in below.iterdir()) == ["done", "in"]
    refused(DataError, "of the format voc, found others", _convert, below, "voc")
