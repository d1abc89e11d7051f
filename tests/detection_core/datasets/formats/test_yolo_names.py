import json
import time

import pytest

from detection_core.datasets.formats.yolo_names import read_set
from detection_core.errors import DataError
from detection_core.storage.folder_listing import list_folder


def _read(root, name, text):
    (root / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_set(list_folder(str(root)), name)


@pytest.mark.parametrize(
    ("name", "text", "names"),
    [
        ("data.yaml", "names: [cat, dog]\nnc: 2", {0: "cat", 1: "dog"}),
        ("data.yml", "names:\n  0: cat\n  2: dog", {0: "cat", 2: "dog"}),
        ("data.yaml", "names: {'0': cat, '1': 7}", {0: "cat", 1: "7"}),
        ("data.yaml", "nc: 2\ntrain: x", {0: "class_0", 1: "class_1"}),
        ("classes.txt", "\ufeffcat\r\nrote Katze \r\n\r\n", {0: "cat", 1: "rote Katze"}),
    ],
)
def test_classes_may_be_written_in_many_ways(tmp_path, name, text, names):
    assert _read(tmp_path, name, text).names == names


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("names: !!python/object/apply:os.system ['touch /tmp/hacked']", "plain values.*python/object"),
        ("names: !!python/name:os.system", "plain values"),
        ("a: &a [x, x]\nb: &b [*a, *a]\nnames: [*b, *b]", "aliases are not read"),
        ("names: [cat", "plain values"),
        ("- cat", "with names and train"),
        ("names: cat", "a list or a mapping, found 'cat'"),
        ("names: []", "a list or a mapping"),
        ("names: [cat, [dog]]", "a class name as printable text"),
        ("names: [yes, no]", "found True"),
        ("names: {a: cat}", "class index"),
        ("names: {-1: cat}", "class index"),
        ("names: [cat, cat]", "unique class names, found cat"),
        ("names: [cat]\nnc: 80", "found nc 80 and 1 names"),
        ("names: [cat]\ntrain: {a: b}", "train as a path or a list of paths"),
        ("names: [cat]\nkpt_shape: [17]", "kpt_shape"),
        ("names: [cat]\nkpt_shape: [17, 4]", "kpt_shape"),
        ("names: [cat]\nkpt_names: [nose]", "kpt_names"),
        ("names: [cat]\nkpt_names: {0: [nose, nose]}", "unique names"),
        (b"names: [\xff]", "UTF-8"),
        ("", "class names in a file"),
        ("[" * 10_000, "plain values"),
        ("names: " + "[" * 60 + "]" * 60, "nested more than 50 deep"),
        ("x:\n" + "".join("  " * depth + "- \n" for depth in range(1, 900)), "plain values"),
        ("names: [" + "c," * 100_000 + "]", "unique class names, found c"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_error_that_names_it(tmp_path, text, message):
    with pytest.raises(DataError, match=message) as caught:
        _read(tmp_path, "data.yaml", text)
    assert caught.value.where == str(tmp_path / "data.yaml")


def test_darknet_s_file_names_another(tmp_path):
    (tmp_path / "obj.names").write_text("cat\n")
    found = _read(
        tmp_path, "obj.data", "classes = 1\ntrain  = data/train.txt\nnames=data/obj.names\nbackup = x"
    )
    assert (found.names, found.splits) == ({0: "cat"}, {"train": ["data/train.txt"]})
    with pytest.raises(DataError, match=r"class names 'data/no\.names', found none"):
        _read(tmp_path, "obj.data", "train = x\nnames = data/no.names")


def test_a_file_of_very_many_classes_is_soon_read(tmp_path):
    names = [f"class {number}" for number in range(100_000)]
    began = time.process_time()
    assert list(_read(tmp_path, "data.yaml", f"names: {json.dumps(names)}").names.values()) == names
    assert time.process_time() - began < 10
