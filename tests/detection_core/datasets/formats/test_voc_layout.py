"""Pascal VOC data sets that are found in a folder."""

import pytest

from detection_core.datasets.formats import voc_layout
from detection_core.errors import DataError
from detection_core.storage.folder_listing import list_folder
from tests.support.cases import cases, refused
from tests.support.dataset_files import picture, subfolder, voc_xml, write_voc
from tests.support.same_set import write_text


def _find(root):
    return voc_layout.find(list_folder(str(root)))


def _write(root, annotations, images, names, suffix=".png"):
    for name in names:
        for folder, end, text in ((annotations, ".xml", voc_xml(name)), (images, suffix, "image")):
            (root / folder).mkdir(parents=True, exist_ok=True)
            (root / folder / (name + end)).write_text(text)


def test_the_images_are_where_most_names_agree_or_in_folders_below(tmp_path):
    _write(tmp_path, "xml", "all", "abcd")
    for name in "ab":
        (tmp_path / "preview").mkdir(exist_ok=True)
        (tmp_path / "preview" / f"{name}.jpg").write_text("small")
    assert voc_layout.find_folders(str(tmp_path)) == {"annotations": "xml", "images": "all"}
    assert _find(tmp_path).evidence == "4 XML files in xml/, 4 images in all/"
    below = subfolder(tmp_path, 1)
    for split, name in {"one": "a", "two": "b"}.items():
        (below / "images" / split).mkdir(parents=True)
        (below / "images" / split / f"{name}.jpg").write_bytes(picture())
        write_text(below / "xml" / f"{name}.xml", voc_xml(name))
    assert voc_layout.find_folders(str(below)) == {"annotations": "xml", "images": "images"}


def test_the_larger_of_two_sets_is_taken_and_a_folder_that_is_not_there_said(tmp_path):
    write_voc(tmp_path / "VOC2007", "ab")
    write_voc(tmp_path / "VOC2012", "cde")
    layout = _find(tmp_path)
    assert layout.path == str(tmp_path / "VOC2012") and "1 more such sets beside it" in layout.evidence
    refused(DataError, "expected the folder of a data set", voc_layout.find_folders, str(tmp_path / "none"))


@cases("<annotations><image/></annotations>", "<html/>", "", "\0\1\2")
def test_other_xml_is_no_annotation(tmp_path, *, text):
    (tmp_path / "a.xml").write_text(text)
    (tmp_path / "a.jpg").write_text("image")
    assert _find(tmp_path) is None
    with pytest.raises(DataError, match=r"found none; correct data\.path or data\.format"):
        voc_layout.find_folders(str(tmp_path))
