import json
from pathlib import Path

import pytest

from components.example_gen.ingestion import read_dataset
from components.example_gen.shards import read_reports, shard_settings, write_shard, write_tasks
from detection_core.errors import ConfigError
from tests.support.cases import cases
from tests.support.dataset_files import Coco


def _tasks(tmp_path, images=7, shard_examples=3, compression=""):
    dataset = read_dataset(Coco(tmp_path / "data", images=images).write(), "coco", {"train": 1}, None)
    out = tmp_path / "out"
    settings = shard_settings(dataset.label_map.ids_by_text, compression)
    return out, write_tasks(str(out), "train", dataset.splits["train"], shard_examples, settings)


def test_records_are_divided_evenly_and_in_order(tmp_path):
    _, tasks = _tasks(tmp_path)
    assert list(tasks.values()) == [2, 2, 3]
    parts = [[json.loads(line) for line in Path(path).read_text().splitlines()] for path in tasks]
    assert [head["index"] for head, *_ in parts] == [0, 1, 2]
    assert len({record[0] for _, *records in parts for record in records}) == 7


@cases(("", ""), ("GZIP", ".gz"))
def test_a_shard_is_named_for_its_place_and_written_twice_it_is_the_same(
    tmp_path, monkeypatch, *, compression, suffix
):
    out, tasks = _tasks(tmp_path, compression=compression)
    for path in tasks:
        assert write_shard(path) == tasks[path]
    before = {path.name: path.read_bytes() for path in (out / "Split-train").iterdir()}
    assert sorted(before) == [f"examples-{n:05d}-of-00003.tfrecord{suffix}" for n in range(3)]
    monkeypatch.setattr("time.time", lambda: 0.0)
    write_shard(list(tasks)[1])
    assert {path.name: path.read_bytes() for path in (out / "Split-train").iterdir()} == before


def test_a_bad_image_is_left_out_and_reported(tmp_path):
    out, (task, *_) = _tasks(tmp_path, shard_examples=100)
    (tmp_path / "data" / "images" / "3.jpg").unlink()
    assert write_shard(task) == 6
    (report,) = read_reports(str(out))
    assert report["split"] == "train" and report["counts"]["counts"]["total"]["images"] == 6
    assert report["rejected"] == [["3.jpg", "3", "missing_image", "there is no such file"]]
    with pytest.raises(ConfigError, match="GZIP"):
        shard_settings({}, "ZIP")
