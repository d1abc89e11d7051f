"""Files that are read separately give the annotations of the reader, in any process."""

import pickle

from detection_core.datasets.annotated_images import AnnotatedImage, Rejected
from detection_core.datasets.many_files import Finding, ManyFiles, find_image
from detection_core.datasets.readers import READERS
from tests.support.dataset_files import whole
from tests.support.same_set import WRITERS


def _image(name):
    if name == "b":
        raise Rejected("malformed_record", "found b")
    return AnnotatedImage(name, name, name, 0, 0, []) if name != "c" else None


def test_a_file_has_an_image_a_fault_or_nothing():
    find = find_image(_image)
    image, fault, nothing = (list(find(name)) for name in "abc")
    assert image == [Finding(_image("a"))] and nothing == [Finding()]
    assert fault == [Finding(fault=("malformed_record", "found b"))]


def test_files_are_read_in_their_order_while_images_are_iterated():
    read, gathered = [], []
    files = ManyFiles(
        paths=["b", "a"],
        count=lambda: 3,
        read=lambda path: (read.append(path), [Finding(_image("a")), Finding()])[1],
        gather=gathered.append,
    )
    files.annotations()
    assert not read
    assert [path for path, _ in gathered[0]] == ["b", "b", "a", "a"] and read == ["b", "a"]


def test_a_plan_that_was_pickled_opens_the_files_of_the_reader(tmp_path):
    many = {name: reader for name, reader in READERS.items() if reader.open_files}
    assert set(many) == {"voc", "yolo", "tfrecord"}
    for name, reader in many.items():
        root = str(tmp_path / name)
        WRITERS[name](tmp_path / name)
        here = whole(reader.read_annotations(root, None, None))
        opened = pickle.loads(pickle.dumps(reader.plan_files(root, None, None)))()
        assert opened.count() == len(here.images) == 3
        found = whole(reader.read_annotations(root, None, None, opened))
        assert found == here and found.categories
    assert READERS["coco"].plan_files(str(tmp_path), None, None) is None
