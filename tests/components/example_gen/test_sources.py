"""Which data a run reads: their format, their spans, and what tells whether they have changed."""

import hashlib
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from component_specs.example_gen import SPANS, Spans
from components.example_gen.image_index import ImageIndex
from components.example_gen.sources import (
    NO_SPANS,
    Source,
    SpanQuery,
    before_pattern,
    fill,
    fill_spans,
    fingerprint,
    has_pattern,
    resolve_spans,
)
from detection_core.datasets.annotated_images import AnnotatedImage, Rejection
from detection_core.datasets.layouts import check_splits
from detection_core.errors import ConfigError, DataError
from detection_core.storage import files
from tests.support.cases import cases, refused
from tests.support.command_line import run_python
from tests.support.dataset_files import Coco, write_voc
from tests.support.input_data import find
from tests.support.object_store import gcs_server, s3_server
from tests.support.same_set import WRITERS

RATIO, WHOLE = {"train": 0.5, "eval": 0.5}, {"train": 1.0}


def _found(path, data_format, splits, spans=NO_SPANS):
    data = find(path, data_format, splits, spans)
    return data.path, data.format


def _state(path, data_format, splits, spans=NO_SPANS):
    return fingerprint(find(path, data_format, splits, spans))


def _resolve(path, splits, query):
    return resolve_spans(path, check_splits(splits), query)


@cases(*WRITERS)
def test_the_format_of_any_set_is_found(tmp_path, *, data_format):
    WRITERS[data_format](tmp_path)
    assert _found(str(tmp_path), "auto", RATIO) == (str(tmp_path), data_format)


def test_a_set_in_a_folder_of_the_folder_is_read_from_there_and_one_without_data_refused(tmp_path):
    (tmp_path / "notes.md").write_text("nothing")
    told = r"(?s)Looked for COCO.*YOLO.*Found 1 \.md"
    refused(DataError, told, _found, str(tmp_path), "auto", RATIO)
    write_voc(tmp_path / "VOCdevkit" / "VOC2007")
    assert _found(str(tmp_path), "auto", RATIO) == (str(tmp_path / "VOCdevkit" / "VOC2007"), "voc")
    assert _found(str(tmp_path / "none"), "voc", RATIO) == (str(tmp_path / "none"), "voc")


def test_of_spans_the_newest_is_looked_into_and_all_are_read_alike(tmp_path):
    for span in (1, 2):
        write_voc(tmp_path / f"span-{span}" / "VOC2007")
    Coco(tmp_path / "span-3").write()
    path = str(tmp_path / "span-{SPAN}")
    spans = Spans(train=("1", "2"), evaluate=("2",))
    assert _found(path, "auto", RATIO, spans) == (f"{path}/VOC2007", "voc")
    with pytest.raises(DataError, match=r"Looked for Pascal VOC|Looked for COCO"):
        _found(path, "auto", {"train": "none.txt"}, spans)
    assert _found(f"{path}/VOC2007", "auto", {"train": "ImageSets/Main/train.txt"}, spans)[1] == "voc"


@pytest.fixture
def weekly(tmp_path):
    _make(tmp_path, *(f"span-{name}" for name in ("1", "2", "3", "10", "latest", "04")))
    return str(tmp_path / "span-{SPAN}")


def test_data_without_a_pattern_have_no_spans(tmp_path):
    assert _resolve(str(tmp_path), RATIO, SpanQuery()) == Spans()
    assert fill_spans("data", "train.json", ()) == [Source("", "data", "train.json")]
    with pytest.raises(DataError, match="found none") as raised:
        _resolve(str(tmp_path / "{SPAN}"), RATIO, SpanQuery())
    assert raised.value.where == str(tmp_path / "{SPAN}")
    assert not has_pattern("data/{span}/{x}")
    assert before_pattern("s3://bucket/data/span-{SPAN}/x") == "s3://bucket/data"
    assert before_pattern("/{SPAN}") == "/" and before_pattern("/data") == "/data"


@cases(
    (SpanQuery(), ("10",), ("10",)),
    (SpanQuery(window=3), ("2", "3", "10"), ("10",)),
    (SpanQuery(window=9, eval_window=2), ("1", "2", "3", "10"), ("3", "10")),
    (SpanQuery(span="2", window=2), ("1", "2"), ("2",)),
    (SpanQuery(eval_window=2), ("10",), ("3", "10")),
)
def test_the_window_ends_at_the_wanted_span_and_numbers_sort_by_value(weekly, *, query, train, evaluate):
    spans = _resolve(weekly, RATIO, query)
    assert spans == Spans(train=train, evaluate=evaluate)
    assert SPANS.decode(SPANS.encode(spans)) == spans
    assert spans.of("train") == train and spans.of("test") == evaluate
    assert set(spans.all()) == {*train, *evaluate}


def _make(root, *names):
    for name in names:
        (root / name).mkdir(parents=True)


def test_a_width_takes_numbers_of_that_many_digits(tmp_path):
    _make(tmp_path, "001", "012", "13", "1234")
    pattern = str(tmp_path / "{SPAN:3}")
    assert _resolve(pattern, RATIO, SpanQuery(window=5)).train == ("1", "12")
    assert fill(pattern, "12") == str(tmp_path / "012")
    assert _resolve(pattern, RATIO, SpanQuery(span="001")).train == ("1",)


def test_dates_may_spread_over_folders_and_must_be_dates(tmp_path):
    _make(tmp_path, "2026/11/21/images", "2026/11/03/images", "2025/12/31/images", "2026/13/01/images")
    pattern = str(tmp_path / "{YYYY}" / "{MM}" / "{DD}")
    spans = _resolve(pattern, RATIO, SpanQuery(window=2))
    assert spans.train == ("2026-11-03", "2026-11-21")
    assert fill_spans(pattern, None, spans.train)[0][:3] == ("2026-11-03", str(tmp_path / "2026/11/03"), None)
    assert fill("{YYYY}{MM}{DD}-{YYYY}", "2026-11-03") == "20261103-2026"


def test_a_part_that_names_a_span_twice_must_name_it_alike(tmp_path):
    _make(tmp_path, "3/a-3-3", "4/a-4-5", "5/a-6-6")
    spans = _resolve(str(tmp_path / "{SPAN}" / "a-{SPAN}-{SPAN}"), RATIO, SpanQuery(window=9))
    assert spans.train == ("3",)


def test_a_span_counts_once_every_split_is_there(tmp_path):
    splits = {
        "train": {"annotations": "{SPAN}/train.json", "images": "images"},
        "eval": {"annotations": "{SPAN}/eval.json"},
        "test": "always.json",
    }
    _make(tmp_path, "1", "2")
    assert _resolve(str(tmp_path), splits, SpanQuery()).train == ("2",)
    by_name = {"train": "train-{SPAN}.json", "eval": "eval-{SPAN}.json", "test": "always.json"}
    for name in ("train-1", "eval-1", "train-2", "always"):
        (tmp_path / f"{name}.json").touch()
    spans = _resolve(str(tmp_path), by_name, SpanQuery(window=4))
    assert spans == Spans(train=("1",), evaluate=("1",))
    assert fill_spans(str(tmp_path), "always.json", spans.evaluate) == [
        Source("", str(tmp_path), "always.json")
    ]
    filled = {"annotations": "7/train.json", "images": "images"}
    assert fill_spans("data", splits["train"], ("7",)) == [Source("7", "data", filled)]
    with pytest.raises(ConfigError, match="name of a folder"):
        _resolve(str(tmp_path), by_name, SpanQuery(ready_file="_SUCCESS"))


def test_a_span_without_its_marker_is_not_there_yet(weekly, tmp_path):
    for name in ("span-1", "span-2"):
        (tmp_path / name / "_SUCCESS").touch()
    assert _resolve(weekly, RATIO, SpanQuery(ready_file="_SUCCESS", window=9)).train == ("1", "2")
    with pytest.raises(DataError, match="expected the span 3 with a file _SUCCESS, found 1, 2"):
        _resolve(weekly, RATIO, SpanQuery(span="3", ready_file="_SUCCESS"))


@cases("x/{YYYY}-{MM}", "x/{SPAN}/{YYYY}{MM}{DD}", "x/{SPAN}/{VERSION}")
def test_a_pattern_that_cannot_be_used_is_refused(*, path):
    refused(ConfigError, r"expected \{SPAN\}, or \{YYYY\}", _resolve, path, RATIO, SpanQuery())


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
    before = _state(str(tmp_path), "coco", WHOLE)
    assert before == _state(str(tmp_path), "coco", dict(WHOLE))
    change(tmp_path)
    assert _state(str(tmp_path), "coco", WHOLE) != before


def test_the_name_of_the_format_what_is_not_read_and_broken_links_do_not_count(data):
    assert _state(str(data), "auto", WHOLE) == _state(str(data), "coco", WHOLE)
    before = _state(str(data), "coco", WHOLE)
    (data / "README").write_text("hello")
    assert _state(str(data), "coco", WHOLE) == before
    (data / "images" / "link.jpg").symlink_to("nowhere")
    before = _state(str(data), "coco", WHOLE)
    assert _state(str(data.rename(data.parent / "b")), "coco", WHOLE) == before


def test_what_is_not_there_is_refused_without_a_heavy_library(data):
    refused(DataError, "", _state, str(data), "coco", {"train": "no.json"})
    refused(DataError, "", _state, str(data / "nowhere"), "voc", WHOLE)
    refused(ConfigError, "", _state, str(data), "nothing", WHOLE)
    code = "import sys; import components.example_gen.sources; print(*sys.modules)"
    assert not {"tensorflow", "apache_beam", "numpy", "PIL"} & set(run_python(code).stdout.split())


def test_only_the_spans_that_are_read_count(tmp_path):
    for span in (1, 2):
        for name in ("annotations.json", "images/1.jpg"):
            files.write_text(f"{tmp_path}/span-{span}/{name}", "{}")
    pattern, spans = str(tmp_path / "span-{SPAN}"), Spans(train=("1", "2"), evaluate=("2",))
    before = _state(pattern, "coco", WHOLE, spans)
    files.write_text(f"{tmp_path}/span-3/annotations.json", "{}")
    assert _state(pattern, "coco", WHOLE, spans) == before
    assert _state(pattern, "coco", WHOLE, Spans(train=("2",), evaluate=("2",))) != before
    files.write_text(f"{tmp_path}/span-1/images/2.jpg", "{}")
    assert _state(pattern, "coco", WHOLE, spans) != before


@pytest.mark.parametrize("server", [s3_server, gcs_server])
def test_a_file_corrected_in_place_counts_on_a_store(data, server):
    with server() as bucket:
        root = f"{bucket}/fingerprint"
        files.copy_tree(str(data), root)
        before = _state(root, "coco", WHOLE)
        assert _state(root, "coco", WHOLE) == before
        files.write_bytes(f"{root}/images/1.jpg", b"corrected")
        assert _state(root, "coco", WHOLE) != before


def test_a_changed_list_of_a_split_changes_it(data):
    (data / "train.txt").write_text("1.jpg\n")
    splits = {"train": {"images": "train.txt"}, "eval": {"images": "images"}}
    before = _state(str(data), "coco", splits)
    assert _state(str(data), "auto", splits) == before
    (data / "train.txt").write_text("2.jpg\n")
    _touch(data / "train.txt")
    assert _state(str(data), "coco", splits) != before


SPLITS = ["eval", "train"]


def _image(image_id, name="a.jpg"):
    return AnnotatedImage(image_id, name, f"/x/{name}", 4, 3, [])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(SPLITS), st.sampled_from("abcdefgä") | st.text(max_size=2))))
def test_images_come_by_the_hashes_of_their_ids_and_the_first_of_an_id_stays(added):
    encodable = [(split, i) for split, i in added if i.isprintable()]
    index, first, doubles = ImageIndex(), {}, []
    for number, (split, image_id) in enumerate(encodable):
        image = _image(image_id, f"{number}.jpg")
        index.add(split, image)
        if first.setdefault((split, image_id), image) is not image:
            doubles.append((split, image.filename, first[split, image_id].filename))
    index.reject_doubles()
    for split in SPLITS:
        own = [image for (name, _), image in first.items() if name == split]
        own.sort(key=lambda i: (hashlib.sha256(f"order\0{i.source_id}".encode()).digest()[:8], i.source_id))
        assert list(index.images(split)) == own and len(index.images(split)) == len(own)
        assert [(r.file, r.reason, r.detail) for r in index.rejected(split)] == [
            (file, "duplicate_id", f"the id is that of {before!r}, which comes first")
            for name, file, before in doubles
            if name == split
        ]


def test_rejections_keep_their_order_and_any_text():
    index = ImageIndex()
    noted = [Rejection(f"{n}\udcff.jpg", "\ud800", "empty_image", "ä") for n in range(3)]
    index.reject("train", noted[:2])
    index.reject("eval", noted)
    index.reject("train", noted[2:])
    assert list(index.rejected("train")) == noted and len(index.rejected("train")) == 3
    assert noted[0] in index.rejected("eval") and len(index.rejected("test")) == 0


def test_a_file_s_name_need_not_be_utf_8():
    index = ImageIndex()
    images = [_image("1", "x\udcff.jpg"), _image("1", "y\udcff.jpg")]
    for image in images:
        index.add("train", image)
    index.reject_doubles()
    assert list(index.images("train")) == images[:1] and images[0] in index.images("train")
    [double] = index.rejected("train")
    assert double.file == "y\udcff.jpg" and "x\\udcff.jpg" in double.detail
