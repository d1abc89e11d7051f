"""ExampleGen as a whole, through real Beam, read back with TensorFlow."""

import gzip
import hashlib
import json
import os

import numpy as np
import pytest

from component_specs import ExampleGenJob
from component_specs.example_gen import Spans
from components.example_gen.run import run
from detection_core.builders.input_pipeline import build_input_reader
from detection_core.config.input_paths import point_at_examples
from detection_core.config.label_map_file import load_label_map
from detection_core.data.record_format import write_record
from detection_core.data.records import naming_bad_records
from detection_core.datasets.layout_search import find_layout
from detection_core.errors import ConfigError, DataError
from detection_core.evaluation.coco_truth import CocoTruth
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.storage import files
from detection_core.storage.shard_cache import shard_cache
from detection_core.tasks.fitting.work_folder import training_fingerprint
from tests.support.cases import cases
from tests.support.dataset_files import NO_PIXELS, WRONG_TABLE, Coco, picture, voc_xml, write_voc
from tests.support.object_store import dead_server, s3_server
from tests.support.python_traps import set_traps

GIVEN = {"train": "train.json", "eval": "eval.json"}
THREADS, PROCESSES = (
    ("--runner=FnApiRunner", f"--direct_running_mode={mode}", "--direct_num_workers=2")
    for mode in ("multi_threading", "multi_processing")
)


def _write_records(path, count, **changed):
    """Write records as others do: without what ingest adds, and with a key that only they know."""
    from tests.support.features import bytes_feature, float_feature, int64_feature, serialise_features

    path.parent.mkdir(parents=True, exist_ok=True)
    numbers = {"height": 30, "width": 40, "object/class/label": 2}
    features = {f"image/{name}": int64_feature([value]) for name, value in numbers.items()}
    sides = {"xmin": 0.25, "ymin": 0.25, "xmax": 0.75, "ymax": 0.75}
    features |= {f"image/object/bbox/{side}": float_feature([value]) for side, value in sides.items()}
    texts = {"mine/camera": b"east", "image/object/class/text": b"cat"}
    features |= {name: bytes_feature([text]) for name, text in texts.items()} | changed
    written = []
    for number in range(count):
        features["image/encoded"] = bytes_feature([picture(seed=number)])
        features["image/filename"] = bytes_feature([f"{number}.jpg".encode()])
        features["image/source_id"] = bytes_feature([f"{path.name}{number}".encode()])
        written.append(serialise_features({key: value for key, value in features.items() if value}))
    with (gzip.open if path.suffix == ".gz" else open)(path, "wb") as out:
        for data in written:
            write_record(out, data)
    return written


@cases("", ".gz")
def test_records_pass_through_and_are_split_anew_with_all_that_is_in_them(tmp_path, *, suffix):
    written = _write_records(tmp_path / "data" / f"some-00000{suffix}", 30)
    written += _write_records(tmp_path / "data" / f"some-00001{suffix}", 10)
    halves = {"train": 0.5, "eval": 0.5}
    out, card = _run(tmp_path, str(tmp_path / "data"), data_format="tfrecord", splits=halves)
    found = [record for split in ("train", "eval") for record in _records(out, split)]
    assert sorted(found) == sorted(written)
    assert card["total"]["passed_through"] == card["total"]["images"] == 40
    assert load_label_map(str(out / "label_map.pbtxt")).texts_by_id == {2: "cat"}


@cases(True, False)
def test_records_that_have_ids_alone_take_names_from_a_label_map_beside_them_or_given(tmp_path, *, beside):
    _write_records(tmp_path / "data" / "all", 8, **{"image/object/class/text": None})
    label_map = tmp_path / ("data" if beside else ".") / "map.pbtxt"
    label_map.write_text("item { id: 1 name: 'dog' } item { id: 2 name: 'cat' }")
    given = {} if beside else {"label_map": str(label_map)}
    out, card = _run(tmp_path, str(tmp_path / "data"), data_format="tfrecord", splits={"train": 1.0}, **given)
    assert [(c["id"], c["name"], c["objects"]) for c in card["classes"]][-1] == (2, "cat", 8)
    assert all(b"mine/camera" in record and b"cat" in record for record in _records(out, "train"))


@cases("auto", "background")
def test_images_without_annotations_are_counted_in_the_card(tmp_path, caplog, *, choice):
    caplog.set_level("INFO", "components.example_gen")
    data = write_voc(tmp_path / "data")
    (tmp_path / "data" / "JPEGImages" / "x.jpg").write_bytes(picture(seed=9))
    _, card = _run(tmp_path, data, splits={"train": 1.0}, unannotated_images=choice)
    assert card["format"] == "voc" and f"found: voc in {data}" in caplog.text
    taken = choice == "background"
    assert card["total"]["unannotated_images"] == 1
    assert card["unannotated"] == ("background" if taken else "leave_out")
    assert (card["total"]["images"], card["total"]["empty_images"]) == (4 + taken, int(taken))
    assert ("1 images without annotations are left out" in caplog.text) != taken


def _write_data(root):
    for split, first_id in (("train", 1), ("eval", 100)):
        Coco(root, images=9, first_id=first_id).write(f"{split}.json")
    return str(root)


@pytest.fixture
def data(tmp_path):
    """Data that a test may change."""
    return _write_data(tmp_path / "data")


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """Data, what comes of them without another setting, and the card."""
    root = tmp_path_factory.mktemp("plain")
    data = _write_data(root / "data")
    return data, *_run(root, data)


def _run(tmp_path, data, name="examples", **fields):
    values = {"splits": GIVEN, "shard_examples": 4, **fields}
    card = run(ExampleGenJob(examples=str(tmp_path / name), data_path=data, **values))
    return tmp_path / name, card


def _content(folder):
    found = {str(p.relative_to(folder)): p for p in sorted(folder.rglob("*")) if p.is_file()}
    return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in found.items()}


def _records(folder, split):
    import tensorflow as tf

    for path in sorted((folder / f"Split-{split}").iterdir()):
        kind = "GZIP" if path.suffix == ".gz" else ""
        yield from tf.data.TFRecordDataset(str(path), kind).as_numpy_iterator()


def _examples(folder, split):
    from tensorflow.core.example.example_pb2 import Example

    for data in _records(folder, split):
        features = Example.FromString(data).features.feature
        yield {key: list(getattr(f, f.WhichOneof("kind")).value) for key, f in features.items()}


def test_what_goes_in_comes_out_under_the_object_detection_api_s_keys(tmp_path, data):
    folder, card = _run(tmp_path, data, compression="GZIP")
    found = {e["image/source_id"][0]: e for split in ("train", "eval") for e in _examples(folder, split)}
    assert len(found) == 18
    example = found[b"2"]
    assert example.pop("image/encoded") == [picture(seed=2)]
    for side, value in {"xmin": 2 / 40, "ymin": 3 / 30, "xmax": 12 / 40, "ymax": 23 / 30}.items():
        assert example.pop(f"image/object/bbox/{side}") == pytest.approx([value])
    assert example == {
        "image/filename": [b"2.jpg"],
        "image/format": [b"jpeg"],
        "image/height": [30],
        "image/key/sha256": [hashlib.sha256(picture(seed=2)).hexdigest().encode()],
        "image/object/area": [123.5],
        "image/object/class/label": [3],
        "image/object/class/text": [b"cat"],
        "image/object/is_crowd": [0],
        "image/source_id": [b"2"],
        "image/width": [40],
    }
    assert found[b"3"]["image/object/bbox/xmin"] == []
    assert card["total"]["images"] == 18 and card["splits"]["train"]["shards"] == 3


def test_tiles_of_an_image_lie_in_its_split_and_only_training_images_are_cut(tmp_path):
    coco = Coco(tmp_path / "data", images=12)
    coco.write("all.json")
    ratios = {"train": 0.6, "eval": 0.4}
    folder, card = _run(tmp_path, str(tmp_path / "data"), splits=ratios, tiles={"size": 16, "overlap": 0.25})
    whole, _ = _run(tmp_path, str(tmp_path / "data"), "whole", splits=ratios)
    of_split = {
        (made, split): [e["image/source_id"][0].decode() for e in _examples(made, split)]
        for made in (folder, whole)
        for split in ratios
    }
    # 40 x 30 pixels: columns from 0, 12 and 24, rows from 0, 12 and 14; the image follows its tiles.
    places = [f"@{left},{top}" for top in (0, 12, 14) for left in (0, 12, 24)]
    expected = [name + place for name in of_split[whole, "train"] for place in [*places, ""]]
    assert of_split[folder, "train"] == expected
    assert _content(folder / "Split-eval") == _content(whole / "Split-eval")
    assert card["splits"]["train"]["images"] == len(expected)
    assert card["splits"]["eval"]["images"] == len(of_split[whole, "eval"])
    tile_edges = [e.get("image/tile") for e in _examples(folder, "train")][:10]
    assert tile_edges == [*([left, top] for top in (0, 12, 14) for left in (0, 12, 24)), None]
    for name, values in {"tiles.overlap": {"size": 16, "overlap": 1}, "tiles": {"overlap": 0.1}}.items():
        with pytest.raises(ConfigError, match="expected") as refusal:
            _run(tmp_path, str(tmp_path / "data"), "refused", splits=ratios, tiles=values)
        assert refusal.value.where == name


def test_masks_and_keypoints_come_out_as_training_reads_them(tmp_path):
    from detection_core.data.decode import DecodeOptions, decode_example

    coco = Coco(tmp_path / "data", images=1)
    coco.categories = [{"id": 3, "name": "cat", "keypoints": ["nose", "tail"]}, {"id": 1, "name": "dog"}]
    ring = [2, 3, 12, 3, 12, 23, 2, 23]
    coco.annotations[0].update(segmentation=[ring], keypoints=[10, 15, 2, 0, 0, 0])
    coco.add_box(1, [2, 3, 10, 20], category_id=1)
    folder, _ = _run(tmp_path, coco.write(), splits={"train": 1})
    [data] = _records(folder, "train")
    truth = decode_example(data, options=DecodeOptions(masks="PNG_MASKS", keypoints=2)).sample.truth
    box = np.zeros((30, 40))
    box[3:23, 2:12] = 1
    np.testing.assert_array_equal(truth.masks, [box, np.zeros_like(box)])
    np.testing.assert_allclose(truth.keypoints[0], [[0.5, 0.25], [np.nan, np.nan]])
    np.testing.assert_array_equal(truth.keypoint_weights, [[1, 0], [0, 0]])
    [example] = _examples(folder, "train")
    assert example["image/object/mask/weight"] == [1.0, 0.0]
    assert example["image/object/keypoint/num"] == [1, 0]
    assert example["image/object/keypoint/text"] == [b"nose", b"tail"] * 2


def test_lvis_s_flags_come_out_as_its_metrics_read_them(tmp_path):
    coco = Coco(tmp_path / "data", images=2)
    for entry in coco.annotations:
        entry["segmentation"] = [[2, 3, 12, 3, 12, 23]]
    coco.categories = [
        {"id": id_, "name": name, "frequency": letter}
        for id_, name, letter in ((3, "cat", "r"), (1, "dog", "f"), (2, "bird", "c"))
    ]
    for entry in coco.images:  # LVIS 1.0 has no file names
        entry["coco_url"] = f"http://images.cocodataset.org/train2017/{entry.pop('file_name')}"
    coco.images[0].update(neg_category_ids=[2, 1], not_exhaustive_category_ids=[3])
    data = coco.write()
    assert find_layout(data).images == 2
    folder, card = _run(tmp_path, data, splits={"train": 1})
    assert card["total"]["images"] == 2
    label_map = load_label_map(f"{folder}/label_map.pbtxt")
    assert label_map.frequencies == {0: "FREQUENT", 1: "COMMON", 2: "RARE"}
    config = point_at_examples(TrainEvalPipelineConfig(), str(folder), eval_split="train")
    config.eval_input_reader[0].load_instance_masks = True
    config.eval_input_reader[0].mask_type = "PNG_MASKS"
    known = {t.source_id: t for _, t in build_input_reader(config.eval_input_reader[0], label_map).truth()}
    truth = CocoTruth(f"{tmp_path}/data/annotations.json")
    assert truth.label_map.frequencies == label_map.frequencies
    for _, wanted in truth():
        found = known[wanted.source_id]
        assert set(found.labelled) == set(wanted.labelled)
        assert found.not_exhaustive.tolist() == wanted.not_exhaustive.tolist()
        assert list(found.masks) == list(wanted.masks)
    assert known["1"].not_exhaustive.tolist() == [2] and not len(known["2"].labelled)


def test_pascal_fields_come_out_too(tmp_path):
    path = write_voc(tmp_path / "data", a=voc_xml("a", boxes=[(1, 2, 20, 15), (3, 3, 9, 9)]))
    folder, _ = _run(tmp_path, path, data_format="voc", splits={"train": "ImageSets/Main/train.txt"})
    (example,) = (e for e in _examples(folder, "train") if e["image/source_id"] == [b"a"])
    assert example["image/object/difficult"] == [0, 0] and example["image/object/truncated"] == [1, 1]
    assert example["image/object/view"] == [b"Left", b"Left"]
    assert example["image/object/area"] == [19 * 13, 36]
    assert [item.name for item in load_label_map(str(folder / "label_map.pbtxt")).items] == ["cat"]


def test_the_bytes_do_not_depend_on_workers_the_order_of_the_input_or_the_output(tmp_path, data, plain):
    before = _content(plain[1])
    shards = {f"Split-{s}/examples-{n:05d}-of-00003.tfrecord" for s in ("train", "eval") for n in range(3)}
    others = {"label_map.pbtxt", "dataset_card.json", "box_profile.json", "quarantine.jsonl"}
    assert set(before) == shards | others
    for name in ("work [x]/examples", os.fsdecode(b"no UTF-8 \xff/examples")):
        assert _content(_run(tmp_path, data, name)[0]) == before
    for split in ("train", "eval"):
        path = tmp_path / "data" / f"{split}.json"
        content = json.loads(path.read_text())
        content["images"].reverse()
        path.write_text(json.dumps(content))
    many, _ = _run(tmp_path, data, "many", beam_args=THREADS)
    assert _content(many) == before


@pytest.mark.slow
def test_the_bytes_are_the_same_from_several_processes(tmp_path, plain, monkeypatch):
    executed = set_traps(tmp_path / "started_in")
    monkeypatch.chdir(tmp_path / "started_in")
    many, _ = _run(tmp_path, plain[0], beam_args=PROCESSES)
    assert _content(many) == _content(plain[1]) and not executed.exists()


def test_every_bad_record_is_listed_and_the_others_come_out(tmp_path):
    coco = Coco(tmp_path / "data", images=9)
    coco.images.append({"id": 1000, "file_name": 7})
    images = {"missing_image": b"", "not_an_image": b"<html>", "undecodable_image": NO_PIXELS}
    for number, (_, data) in enumerate(images.items(), start=1001):
        coco.add_image(number, data=data)
    coco.add_image(1004, boxes=[[1, 1, 5, 5], [10, 10, -5, 5]])
    fields = {"splits": {"train": 1}, "quarantine_limit": 0.9, "decode_images": "all"}
    folder, card = _run(tmp_path, coco.write(), **fields)
    lines = [json.loads(line) for line in (folder / "quarantine.jsonl").read_text().splitlines()]
    expected = [*enumerate(["malformed_record", *images, "box_inverted"], start=1000)]
    assert sorted((int(line["record"]), line["reason"]) for line in lines) == expected
    assert card["total"]["images"] == len(list(_examples(folder, "train"))) == 9


def test_too_many_bad_records_stop_the_run_and_leave_what_was_there(tmp_path, data):
    folder, _ = _run(tmp_path, data)
    before = _content(folder)
    (tmp_path / "data" / "images" / "1.jpg").write_bytes(b"")
    with pytest.raises(DataError, match=r"1 of 18 .*empty_image 1") as caught:
        _run(tmp_path, data, quarantine_limit=0.05)
    assert _content(folder) == before
    listed = tmp_path / "examples.quarantine.jsonl"
    assert caught.value.where == str(listed) and json.loads(listed.read_text())["file"] == "1.jpg"
    _run(tmp_path, data, quarantine_limit=0.06)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["data", "examples"]


def test_a_given_label_map_decides_the_ids(tmp_path, plain):
    (tmp_path / "map.pbtxt").write_text("item { id: 7 name: 'cat' }\nitem { id: 8 name: 'dog' }")
    folder, _ = _run(tmp_path, plain[0], label_map=str(tmp_path / "map.pbtxt"))
    labels = {label for e in _examples(folder, "train") for label in e["image/object/class/label"]}
    assert labels == {7}
    assert load_label_map(str(folder / "label_map.pbtxt")).num_classes == 8


def test_a_parameter_that_cannot_be_used_and_a_dead_store_leave_no_artifact(tmp_path, plain):
    refusals = {
        ("quarantine_limit", 1.5): "0 to 1",
        ("shard_examples", 0): "1 or more",
        ("data_format", "x"): "'coco'",
        ("decode_images", "some"): "['all', 'none', 'sample']",
        ("exif_annotations", "up"): "['upright', 'stored']",
        ("unannotated_images", "x"): "['auto', 'background', 'leave_out']",
        ("compression", "ZIP"): "['', 'GZIP']",
    }
    for (name, value), known in refusals.items():
        with pytest.raises(ConfigError) as caught:
            _run(tmp_path, plain[0], **{name: value})
        assert caught.value.where == name and known in str(caught.value)
        assert not (tmp_path / "examples").exists()
    with dead_server() as bucket, pytest.raises(DataError, match="an answer from the object store"):
        _run(tmp_path, plain[0], shards_uri=f"{bucket}/shards")
    assert not (tmp_path / "examples").exists()


def test_the_card_names_the_spans_and_a_plain_data_set_has_none(tmp_path, plain):
    for span in (1, 2):
        Coco(tmp_path / str(span), images=9).write()
    path, splits = str(tmp_path / "{SPAN}"), {"train": 0.6, "eval": 0.4}
    for given, used in (({"spans": Spans(train=("1", "2"), evaluate=("2",))}, ["1", "2"]), ({}, ["2"])):
        assert _run(tmp_path, path, splits=splits, **given)[1]["spans"] == {"eval": ["2"], "train": used}
    assert "spans" not in plain[2]


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """A bucket, and an empty cache for what is read from it."""
    monkeypatch.setenv("DETFLOW_SHARD_CACHE", str(tmp_path / "cache"))
    shard_cache.cache_clear()
    with s3_server() as bucket:
        yield bucket
    shard_cache.cache_clear()


def _train_records(folder):
    """The records of an epoch in the order of training, and how many the reader counts."""
    config = point_at_examples(TrainEvalPipelineConfig(), str(folder))
    reader = build_input_reader(config.train_input_reader, load_label_map(f"{folder}/label_map.pbtxt"))
    with naming_bad_records(reader.paths, reader.decode):
        records = reader.shuffled_records(seed=3, first_epoch=0).take(9)
        return [record.element for record in records.as_numpy_iterator()], reader.examples()


def test_shards_on_an_object_store_are_read_as_those_in_the_artifact(tmp_path, plain, stored):
    (data, *_), uri = plain, f"{stored}/shards"
    here, card = _run(tmp_path, data, "here", compression="GZIP")
    there, same_card = _run(tmp_path, data, "there", compression="GZIP", shards_uri=uri)
    assert card == same_card
    elsewhere, _ = _run(tmp_path, data, "elsewhere", shards_uri=str(tmp_path / "shards"))
    assert _train_records(elsewhere) == _train_records(here)
    kept = _content(there)
    listed = [f"Split-{split}/examples.tfrecord_manifest.json" for split in ("eval", "train")]
    assert [name for name in kept if "tfrecord" in name] == listed
    assert _train_records(there) == _train_records(here)
    # A second time nothing is fetched, and nothing is written elsewhere.
    states = list(files.states(uri))
    assert _content(_run(tmp_path, data, "again", compression="GZIP", shards_uri=uri)[0]) == kept
    assert [state.split()[0] for state in files.states(uri)] == [state.split()[0] for state in states]
    # Other parameters are other data: what an older manifest lists stays.
    other, _ = _run(tmp_path, data, "other", compression="GZIP", shards_uri=uri, shard_examples=2)
    assert set(states) <= set(files.states(uri))
    # An unfinished training goes on with the same list of shards, and not with another.
    config = TrainEvalPipelineConfig()
    folders = (there, tmp_path / "again", other)
    same, again, another = (training_fingerprint(point_at_examples(config, str(f))) for f in folders)
    assert same == again != another
    with dead_server():
        assert len(_train_records(there)[0]) == 9


def test_a_store_that_has_died_is_one_clear_error_to_a_reader(tmp_path, plain, stored):
    there, _ = _run(tmp_path, plain[0], shards_uri=f"{stored}/shards")
    with dead_server(), pytest.raises(DataError, match="expected an answer from the object store"):
        _train_records(there)
    assert _train_records(there)[1] == 9
    manifest = json.loads((there / "Split-train" / "examples.tfrecord_manifest.json").read_text())
    files.write_bytes(manifest["shards"][1]["uri"], b"other")
    for copy in (tmp_path / "cache").iterdir():
        copy.unlink()
    with pytest.raises(DataError, match="changed or damaged") as raised:
        _train_records(there)
    assert raised.value.where == manifest["shards"][1]["uri"]


def test_images_and_annotations_may_lie_on_an_object_store(tmp_path, plain, stored):
    data = f"{stored}/data"
    files.copy_tree(plain[0], data)
    assert _content(_run(tmp_path, data)[0]) == _content(plain[1])


def test_images_that_do_not_decode_are_found_in_the_sample_and_all_of_them_where_all_are_decoded(tmp_path):
    coco = Coco(tmp_path / "data", images=60)
    for number in (7, 23, 41):
        (tmp_path / "data" / "images" / f"{number}.jpg").write_bytes(NO_PIXELS)
    (tmp_path / "data" / "images" / "50.jpg").write_bytes(WRONG_TABLE)
    data, fields = coco.write(), {"splits": {"train": "annotations.json"}, "quarantine_limit": 1.0}
    for mode, decoded, decoders in (("sample", 16, ["Pillow"]), ("all", 60, ["Pillow", "TensorFlow"])):
        folder, card = _run(tmp_path, data, name=mode, decode_images=mode, **fields)
        found = card["quarantine"]["records"]
        assert card["decoding"]["decoders"] == decoders
        assert card["decoding"]["images"] == card["splits"]["train"]["decoded_images"] == decoded - found
        assert card["decoding"]["fraction"] == pytest.approx((decoded - found) / (60 - found))
        assert len(list(_examples(folder, "train"))) == 60 - found
    assert card["quarantine"]["reasons"] == {"undecodable_image": 3, "decoders_differ": 1}
    _, card = _run(tmp_path, data, name="none", decode_images="none", **fields)
    assert card["decoding"] == {"images": 0, "fraction": 0.0, "decoders": []}
    assert card["total"]["images"] == 60
