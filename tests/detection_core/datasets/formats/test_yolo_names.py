import json
import os
import time

from detection_core.datasets.formats.yolo_names import read_set
from detection_core.errors import DataError
from detection_core.storage.folder_listing import list_folder
from tests.support.cases import cases, refused


def _read(root, name, text):
    (root / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_set(list_folder(str(root)), name)


@cases(
    ("data.yaml", "names: [cat, dog]\nnc: 2", ["cat", "dog"]),
    ("data.yml", "names:\n  0: cat\n  2: dog", {0: "cat", 2: "dog"}),
    ("data.yaml", "names: {'0': cat, '1': 7}", ["cat", "7"]),
    ("data.yaml", "nc: 2\ntrain: x", ["class_0", "class_1"]),
    ("classes.txt", "\ufeffcat\r\nrote Katze \r\n\r\n", ["cat", "rote Katze"]),
)  # fmt: skip
def test_classes_may_be_written_in_many_ways(tmp_path, *, name, text, names):
    expected = names if isinstance(names, dict) else dict(enumerate(names))
    assert _read(tmp_path, name, text).names == expected


@cases(
    ("names: !!python/object/apply:os.system ['touch /tmp/hacked']", "plain value.*python/object"),
    ("names: !!python/name:os.system", "plain value, found the tag"),
    ("a: &a [x, x]\nb: &b [*a, *a]\nnames: [*b, *b]", "a class name as printable text"),
    ("names: [cat", "not valid YAML"), ("- cat", "with names and train"),
    ("names: cat", "a list or a mapping, found 'cat'"), ("names: []", "a list or a mapping"),
    ("names: [cat, [dog]]", "a class name as printable text"), ("names: [yes, no]", "found True"),
    ("names: {a: cat}", "class index"), ("names: {-1: cat}", "class index"),
    ("names: [cat, cat]", "unique class names, found cat"),
    ("names: [cat]\nnc: 80", "found nc 80 and 1 names"),
    ("names: [cat]\ntrain: {a: b}", "train as a path or a list of paths"),
    ("names: [cat]\nkpt_shape: [17]", "kpt_shape"), ("names: [cat]\nkpt_shape: [17, 4]", "kpt_shape"),
    ("names: [cat]\nkpt_shape: [1001, 3]", "number of keypoints, up to 1000"),
    (f"names: [cat]\ntrain: [{'a,' * 1001}]", "a list of paths, up to 1,000"),
    ("nc: 100001\ntrain: x", "names as a list or a mapping"), ("names: {100000: cat}", "class index"),
    ("names: [!!bool cat]", "of the kind bool"), ("names: [cat]\nnames: [dog]", "given twice"),
    ("names: [cat]\nkpt_names: [nose]", "kpt_names"),
    ("names: [cat]\nkpt_names: {0: [nose, nose]}", "unique names"), (b"names: [\xff]", "UTF-8"),
    ("", "class names in a file"), ("[" * 10_000, "nested at most 50 deep"),
    ("names: " + "[" * 60 + "]" * 60, "nested at most 50 deep"),
    ("x:\n" + "".join("  " * depth + "- \n" for depth in range(1, 900)), "nested at most 50 deep"),
    ("names: [" + "c," * 100_000 + "]", "unique class names, found c"),
)  # fmt: skip
def test_a_file_that_cannot_be_used_is_one_error_that_names_it(tmp_path, *, text, message):
    error = refused(DataError, message, _read, tmp_path, "data.yaml", text)
    assert error.where.split(":")[0] == str(tmp_path / "data.yaml")


def test_files_name_others_or_themselves_and_many_classes_are_soon_read(tmp_path):
    (tmp_path / "obj.names").write_text("cat\n")
    text = "classes = 1\ntrain  = data/train.txt\nnames=data/obj.names\nbackup = x"
    found = _read(tmp_path, "obj.data", text)
    assert (found.names, found.splits) == ({0: "cat"}, {"train": ["data/train.txt"]})
    lost = "class names 'data/no.names', found none"
    refused(DataError, lost, _read, tmp_path, "obj.data", "train = x\nnames = data/no.names")
    (tmp_path / "other.data").write_text("names = obj.data\n")
    assert _read(tmp_path, "obj.data", "names = obj.data\n").names == {0: "names = obj.data"}
    assert _read(tmp_path, "obj.data", "names = other.data\n").names == {0: "names = obj.data"}
    many = "".join(f"{i}\n" for i in range(150_000))
    refused(DataError, "found 100000", _read, tmp_path, "classes.txt", many)
    (tmp_path / "obj.names").touch()
    os.truncate(tmp_path / "obj.names", 5 * 2**30)  # sparse
    refused(DataError, "a file of up to 4,194,304 bytes", _read, tmp_path, "obj.data", "names = obj.names\n")
    names = [f"class {number}" for number in range(100_000)]
    began = time.process_time()
    assert list(_read(tmp_path, "data.yaml", f"names: {json.dumps(names)}").names.values()) == names
    assert time.process_time() - began < 10
