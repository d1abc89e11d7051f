import os
import subprocess
import sys

import pytest

from component_specs.example_gen import Spans
from components.example_gen.fingerprint import fingerprint
from detection_core.errors import ConfigError, DataError
from detection_core.storage import files
from tests.support.cases import cases, refused
from tests.support.dataset_files import Coco
from tests.support.object_store import gcs_server, s3_server

RATIO = {"train": 1.0}


def _touch(path):
    state = path.stat()
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns + 1))


@pytest.fixture
def data(tmp_path):
    Coco(tmp_path / "data").write()
    return tmp_path / "data"


@cases(
    lambda root: (root / "images" / "1.jpg").unlink(),
    lambda root: (root / "images" / "1.jpg").rename(root / "images" / "new.jpg"),
    lambda root: (root / "images" / "new.jpg").write_bytes(b""),
    lambda root: (root / "images" / "1.jpg").write_bytes(b"other"),
    lambda root: _touch(root / "images" / "1.jpg"),
    lambda root: _touch(root / "annotations.json"),
)
def test_a_changed_file_changes_it(tmp_path, *, change):
    Coco(tmp_path).write()
    before = fingerprint(str(tmp_path), "coco", RATIO)
    assert before == fingerprint(str(tmp_path), "coco", dict(RATIO))
    change(tmp_path)
    assert fingerprint(str(tmp_path), "coco", RATIO) != before


def test_the_name_of_the_format_what_is_not_read_and_broken_links_do_not_count(data):
    assert fingerprint(str(data), "auto", RATIO) == fingerprint(str(data), "coco", RATIO)
    before = fingerprint(str(data), "coco", RATIO)
    (data / "README").write_text("hello")
    assert fingerprint(str(data), "coco", RATIO) == before
    (data / "images" / "link.jpg").symlink_to("nowhere")
    before = fingerprint(str(data), "coco", RATIO)
    assert fingerprint(str(data.rename(data.parent / "b")), "coco", RATIO) == before


def test_what_is_not_there_is_refused_without_a_heavy_library(data):
    refused(DataError, "", fingerprint, str(data), "coco", {"train": "no.json"})
    refused(DataError, "", fingerprint, str(data / "nowhere"), "voc", RATIO)
    refused(ConfigError, "", fingerprint, str(data), "nothing", RATIO)
    code = "import sys; import components.example_gen.fingerprint; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert not {"tensorflow", "apache_beam", "numpy", "PIL"} & set(loaded.split())


def test_only_the_spans_that_are_read_count(tmp_path):
    for span in (1, 2):
        for name in ("annotations.json", "images/1.jpg"):
            files.write_text(f"{tmp_path}/span-{span}/{name}", "{}")
    pattern, spans = str(tmp_path / "span-{SPAN}"), Spans(train=("1", "2"), evaluate=("2",))
    before = fingerprint(pattern, "coco", {"train": 1.0}, spans)
    files.write_text(f"{tmp_path}/span-3/annotations.json", "{}")
    assert fingerprint(pattern, "coco", {"train": 1.0}, spans) == before
    assert fingerprint(pattern, "coco", {"train": 1.0}, Spans(train=("2",), evaluate=("2",))) != before
    files.write_text(f"{tmp_path}/span-1/images/2.jpg", "{}")
    assert fingerprint(pattern, "coco", {"train": 1.0}, spans) != before


@pytest.mark.parametrize("server", [s3_server, gcs_server])
def test_a_file_corrected_in_place_counts_on_a_store(data, server):
    with server() as bucket:
        root = f"{bucket}/fingerprint"
        files.copy_tree(str(data), root)
        before = fingerprint(root, "coco", RATIO)
        assert fingerprint(root, "coco", RATIO) == before
        files.write_bytes(f"{root}/images/1.jpg", b"corrected")
        assert fingerprint(root, "coco", RATIO) != before


def test_a_changed_list_of_a_split_changes_it(data):
    (data / "train.txt").write_text("1.jpg\n")
    splits = {"train": {"images": "train.txt"}, "eval": {"images": "images"}}
    before = fingerprint(str(data), "coco", splits)
    assert fingerprint(str(data), "auto", splits) == before
    (data / "train.txt").write_text("2.jpg\n")
    _touch(data / "train.txt")
    assert fingerprint(str(data), "coco", splits) != before
