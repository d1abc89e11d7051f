from detection_core.datasets.annotated_images import ImageLabel
from detection_core.datasets.formats import cvat
from detection_core.datasets.layout_search import find_layout
from detection_core.errors import DataError
from tests.support.cases import cases, refused
from tests.support.dataset_files import picture, reading, reasons, write_files

_read = reading(cvat)
_NAMES = "<label><name>cat</name></label><label><name>fish</name></label>"
_LABELS = f"{_NAMES}<label><name>nose</name><parent>cat</parent></label>"
HERE = {"annotations": "annotations.xml", "images": "."}
BOX = '<box label="cat" xtl="1" ytl="2" xbr="9" ybr="8"/>'
TRACKS = '<annotations><track id="0" label="cat"><box/></track></annotations>'


def _write(root, *images):
    meta = f"<version>1.1</version><meta><task><labels>{_LABELS}</labels></task></meta>"
    write_files(root, {"annotations.xml": f"<annotations>{meta}{''.join(images)}</annotations>"})


def _image(name, inside=BOX, more='width="40" height="30"'):
    return f'<image id="0" name="{name}" {more}>{inside}</image>'


def test_labels_of_the_task_are_classes_tags_are_labels_of_the_image_and_subsets_splits(tmp_path):
    _write(tmp_path, _image("a.jpg", BOX + '<tag label="fish"/>'), _image("b.jpg", ""))
    found = _read(tmp_path, HERE)
    assert found.categories == {"cat": 0, "fish": 0} and found.keypoint_names == {"cat": ["nose"]}
    shown = [(image.labels, len(image.objects)) for image in found.images]
    assert shown == [([ImageLabel("fish")], 1), ([], 0)]
    sets = {"a.jpg": "Train", "b.jpg": "Validation"}
    _write(tmp_path, *(_image(name, more=f'subset="{word}"') for name, word in sets.items()))
    write_files(tmp_path, {f"images/{word}/{name}": picture() for name, word in sets.items()})
    write_files(tmp_path, {"video.xml": TRACKS})  # a file of video beside it is not taken
    layout = find_layout(str(tmp_path))
    subsets = {split: where["subset"] for split, where in layout.splits.items()}
    assert subsets == {"train": "Train", "eval": "Validation"}
    (image,) = _read(layout.path, layout.splits["eval"]).images
    assert image.path.endswith("images/Validation/b.jpg")


@cases(
    ('<!DOCTYPE x [<!ENTITY a "b">]><annotations/>', "document type"), ("<annotations>", "cannot be parsed"),
    ("<annotation/>", "found <annotation>"), (TRACKS, "tracks of a video"),
)  # fmt: skip
def test_a_file_of_which_nothing_can_be_read_is_one_error(tmp_path, *, text, said):
    write_files(tmp_path, {"annotations.xml": text})
    refused(DataError, rf"annotations\.xml: .*{said}", _read, tmp_path, HERE)
    if text == TRACKS:
        way_out = r'tracks of a video; export the task as "CVAT for images 1\.1"'
        refused(DataError, way_out, find_layout, str(tmp_path))


@cases(
    (_image("../a.jpg"), "path_outside"), (_image("b.jpg", more='width="wide"'), "malformed_record"),
    ('<image width="4" height="3"/>', "malformed_record"),
    (_image("b.jpg", "<polyline/>"), "malformed_annotation"),
)  # fmt: skip
def test_a_bad_image_costs_only_itself(tmp_path, *, image, reason):
    _write(tmp_path, _image("a.jpg"), image)
    found = _read(tmp_path, HERE)
    assert reasons(found) == [reason] and len(found.images) == 1
