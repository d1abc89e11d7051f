from detection_core.datasets.formats import voc_layout
from detection_core.errors import DataError
from detection_core.storage.folder_listing import list_folder
from tests.support.cases import refused
from tests.support.dataset_files import subfolder, voc_xml, write_files, write_voc


def _find(root):
    return voc_layout.find(list_folder(str(root)))


def _write(root, annotations, images, names):
    for name in names:
        write_files(root, {f"{annotations}/{name}.xml": voc_xml(name), f"{images}/{name}.png": "image"})


def test_images_are_where_most_names_agree_and_of_two_sets_the_larger_is_taken(tmp_path):
    _write(tmp_path / "one", "xml", "all", "abcd")
    write_files(tmp_path / "one", {f"preview/{name}.jpg": "small" for name in "ab"})
    assert voc_layout.find_folders(str(tmp_path / "one")) == {"annotations": "xml", "images": "all"}
    assert _find(tmp_path / "one").evidence == "4 XML files in xml/, 4 images in all/"
    for split, name in {"one": "a", "two": "b"}.items():
        _write(tmp_path / "two", "xml", f"images/{split}", name)
    assert voc_layout.find_folders(str(tmp_path / "two")) == {"annotations": "xml", "images": "images"}
    tmp_path = subfolder(tmp_path, 1)
    write_voc(tmp_path / "VOC2007", "ab")
    write_voc(tmp_path / "VOC2012", "cde")
    layout = _find(tmp_path)
    assert layout.path == str(tmp_path / "VOC2012") and "1 more such sets beside it" in layout.evidence
    refused(DataError, "expected the folder of a data set", voc_layout.find_folders, str(tmp_path / "none"))


def test_other_xml_is_no_annotation(tmp_path):
    for text in ("<annotations><image/></annotations>", "<html/>", "", "\0\1\2"):
        write_files(tmp_path, {"a.xml": text, "a.jpg": "image"})
        assert _find(tmp_path) is None, text
        message = r"found none; correct data\.path or data\.format"
        refused(DataError, message, voc_layout.find_folders, str(tmp_path))
