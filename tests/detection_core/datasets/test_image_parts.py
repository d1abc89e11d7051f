from detection_core.datasets.image_parts import find_parts, part_names, plain_line
from detection_core.datasets.layout_search import find_format, find_layout
from detection_core.datasets.readers import find_reader
from detection_core.errors import ConfigError, DataError
from detection_core.storage.folder_listing import FolderListing, list_folder
from pipeline.settings.workflow_settings import DataSettings
from tests.support.cases import cases, refused
from tests.support.dataset_files import Coco, picture, reasons, subfolder, voc_xml, whole, write_files
from tests.support.same_set import WRITERS

SPLITS = {"train": ["a"], "eval": ["b"], "test": ["c"]}


def _ids(layout):
    """Return split to names of the images, as a run reads them."""
    reader = find_reader(layout.format)
    found = {}
    for split, location in layout.splits.items():
        assert find_format(layout.path, list(layout.splits.values())) == (layout.path, layout.format)
        read = whole(reader.read_split(layout.path, location, None))
        found[split] = sorted(image.filename.rpartition("/")[2].split(".")[0] for image in read.images)
    return found


def _move(root, places):
    for name, folder in places.items():
        (root / folder).mkdir(parents=True, exist_ok=True)
        (root / "images" / f"{name}.jpg").rename(root / folder / f"{name}.jpg")


@cases(*sorted(set(WRITERS) - {"tfrecord"}))
def test_lists_beside_a_set_in_one_piece_divide_it_in_every_format(tmp_path, *, data_format):
    WRITERS[data_format](tmp_path)
    lists = {"train.txt": "a", "valid.txt": "b", "test.txt": "c"}
    write_files(tmp_path, {word: f"/home/me/images/{name}.jpg\n" for word, name in lists.items()})
    layout = find_layout(str(tmp_path))
    assert layout.format == data_format and "divided by train.txt" in layout.evidence
    named = zip(("train", "eval", "test"), lists, strict=True)
    assert layout.splits == {split: {"images": word} for split, word in named}
    assert _ids(layout) == SPLITS


@cases("coco", "voc", "csv", "labelme", "cvat", "label_studio", "createml", "via")
def test_folders_of_images_divide_what_is_annotated_in_one_place(tmp_path, *, data_format):
    WRITERS[data_format](tmp_path)
    _move(tmp_path, {"a": "images/train", "b": "images/val", "c": "images/test"})
    layout = find_layout(str(tmp_path))
    assert layout.splits["eval"] == {"images": "images/val"}
    assert _ids(layout) == SPLITS


def test_images_beside_annotations_and_in_several_folders_are_divided(tmp_path):
    WRITERS["csv"](tmp_path)
    _move(tmp_path, dict.fromkeys("abc", "."))
    (tmp_path / "images").rmdir()
    write_files(tmp_path, {"train.txt": "a.jpg\n", "val.txt": "b.jpg\n", "test.txt": "c.jpg\n"})
    assert _ids(find_layout(str(tmp_path))) == SPLITS
    below = subfolder(tmp_path, 1)
    WRITERS["voc"](below)
    _move(below, {"a": "day/train", "b": "night/train", "c": "day/val"})
    layout = find_layout(str(below))
    assert layout.splits == {"train": {"images": "day/train|night/train"}, "eval": {"images": "day/val"}}
    assert _ids(layout) == {"train": ["a", "b"], "eval": ["c"]}
    assert DataSettings(path="x", splits=layout.splits).splits == layout.splits


def test_images_that_nobody_annotated_and_lists_of_something_else_are_no_split(tmp_path):
    Coco(tmp_path / "coco", images=6).write()
    (tmp_path / "coco" / "images").rename(tmp_path / "coco" / "train")
    write_files(tmp_path / "coco", {"test/unknown.jpg": picture()})
    WRITERS["voc"](tmp_path / "voc")
    lists = {"train.txt": "We trained for an hour.\n", "val.txt": "0 0.5 0.5 0.1 0.1\n"}
    write_files(tmp_path / "voc", lists)
    for name in ("coco", "voc"):
        assert find_layout(str(tmp_path / name)).splits == {"train": 0.8, "eval": 0.2}, name


def test_the_shortest_name_of_a_list_is_meant_and_trainval_where_there_is_no_other(tmp_path):
    WRITERS["coco"](tmp_path)
    lists = {"cat_train.txt": "a 1\nb -1\n", "cat_test.txt": "c -1\n", "trainval.txt": "a\nb\n"}
    write_files(tmp_path / "ImageSets", lists)
    assert _ids(find_layout(str(tmp_path))) == {"train": ["a", "b"], "eval": ["c"]}
    write_files(tmp_path / "ImageSets", {"train.txt": "a\n", "val.txt": "b\n"})
    assert _ids(find_layout(str(tmp_path))) == SPLITS
    assert [plain_line(text) for text in ("a 1", "a -1", "a b 0", "a")] == ["a", "a", "a b", "a"]


def test_what_is_rejected_stays_in_its_split_or_in_every_one_and_wrong_parts_are_refused(tmp_path):
    data = Coco(tmp_path, images=3)
    data.images[0]["width"] = "wide"
    data.add_box(99, [0, 0, 5, 5])
    data.write()
    write_files(tmp_path, {"one.txt": "1.jpg\n", "more.txt": "2.jpg images/1.xml\n3.jpg\n"})
    read = find_reader("coco").read_split
    one, more = (whole(read(str(tmp_path), {"images": n}, None)) for n in ("one.txt", "more.txt"))
    assert reasons(one) == ["malformed_record", "unknown_image"] and not one.images
    assert reasons(more) == ["unknown_image"]
    assert [image.source_id for image in more.images] == ["2", "3"]
    # Images that nobody has annotated yet are those of the part.
    names = [f"{split}/images/{split}{name}.jpg" for name in "ab" for split in ("train", "val")]
    below = subfolder(tmp_path, "voc")
    write_files(below, {"xml/traina.xml": voc_xml("traina"), **dict.fromkeys(names, picture())})
    read = whole(find_reader("voc").read_split(str(below), {"images": "train/images"}, None))
    assert [image.filename for image in read.images] == ["traina.jpg"]
    assert [image.filename for image in read.unannotated] == ["trainb.jpg"]
    tmp_path = subfolder(tmp_path, "csv")
    WRITERS["csv"](tmp_path)
    root, reader = str(tmp_path), find_reader("csv")
    assert part_names({"annotations": "x", "images": "y"}) is None and part_names("train.txt") is None
    locate = reader.locate_split
    for images in (5, "a||b"):
        refused(ConfigError, "expected a folder of images or a list", locate, root, {"images": images})
    refused(DataError, r"found nothing; correct data\.splits", locate, root, {"images": "none.txt"})
    (tmp_path / "bad.txt").write_bytes(b"\xff\xfe\xfd")
    message = "expected a list of images in text format"
    refused(DataError, message, reader.read_split, root, {"images": "bad.txt"}, None)
    assert f"{root}/images" in list(reader.locate_split(root, {"images": "images"}))


def test_label_files_are_not_opened_in_search_of_lists(tmp_path, monkeypatch):
    (tmp_path / "classes.txt").write_text("cat\n")
    for number in range(80):
        (tmp_path / f"train_{number}.jpg").write_bytes(picture())
        (tmp_path / f"train_{number}.txt").write_text("0 0.5 0.5 0.1 0.1\n")
        (tmp_path / f"test-notes-{number}.txt").write_text("nothing")
    listing, opened = list_folder(str(tmp_path)), []
    monkeypatch.setattr(FolderListing, "ends", lambda _, name, length=0: opened.append(name) or (b"", b""))
    assert find_parts(listing, []) == {}
    assert len(opened) == 50 and all(name.startswith("test-notes") for name in opened)
