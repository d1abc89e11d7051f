"""Whether a split is whole, before anything is made of it."""

import json
from pathlib import Path

import pytest

from detection_core.artifacts.shard_manifest import MANIFEST, write_manifest
from detection_core.errors import ContractError, DataError
from detection_core.storage.record_files import Shard
from detection_core.tasks.examples import check_split
from tests.support.record_files import write_records


def write_split(folder: Path, shards: int = 3, card: object = None) -> Path:
    """Write a split of two records a shard, with a card where one is given."""
    split = folder / "Split-test"
    split.mkdir(parents=True)
    for number in range(shards):
        write_records(split / f"examples-{number:05d}-of-{shards:05d}.tfrecord", [b"a", b"b"])
    if card is not None:
        (folder / "dataset_card.json").write_text(card if isinstance(card, str) else json.dumps(card))
    return split


def refused(folder: Path, message: str, split: str = "test", error: type[Exception] = DataError) -> None:
    with pytest.raises(error, match=message):
        check_split(str(folder), split)


def test_a_whole_split_tells_its_records_with_a_card_or_without(tmp_path):
    write_split(tmp_path / "plain")
    assert check_split(str(tmp_path / "plain"), "test") == 6
    for number, card in enumerate(({"splits": {"test": {"images": 6, "shards": 3}}}, {"splits": {}}, {})):
        write_split(tmp_path / str(number), card=card)
        assert check_split(str(tmp_path / str(number)), "test") == 6
    split = write_split(tmp_path / "empty", shards=1)
    (split / "examples-00000-of-00001.tfrecord").write_bytes(b"")
    for name in ("test", "none", "../../etc"):
        refused(tmp_path / "empty", r"found (none|the splits test alone)", name)


def test_a_split_that_is_not_as_its_names_and_the_card_say_is_refused(tmp_path):
    split = write_split(tmp_path, card={"splits": {"test": {"images": 6, "shards": 3}}})
    write_records(split / "examples-00000-of-00001.tfrecord", [b"old"])
    refused(tmp_path, r"expected 3 shards .*dataset_card\.json says, found 4")
    (split / "examples-00000-of-00001.tfrecord").unlink()
    for records, found in (([b"a"], 5), ([], 4)):
        write_records(split / "examples-00002-of-00003.tfrecord", records)
        refused(tmp_path, rf"expected 6 images .*found {found}")
    for card in ("{", "[]", *(f'{{"splits": {{"test": {{"images": {n}}}}}}}' for n in ('"many"', "1e300"))):
        (tmp_path / "dataset_card.json").write_text(card)
        expected = r"dataset_card\.json: expected the JSON that ExampleGen writes"
        refused(tmp_path, expected, error=ContractError)
    (tmp_path / "dataset_card.json").unlink()
    (split / "examples-00001-of-00003.tfrecord").unlink()
    message = "expected 3 shards, as their names say, found 2, without examples-00001-of-00003.tfrecord"
    refused(tmp_path, message)


def test_what_a_manifest_lists_has_to_be_there_as_it_says(tmp_path):
    split = write_split(tmp_path / "examples", shards=1)
    path = (split / "examples-00000-of-00001.tfrecord").rename(tmp_path / "far-00000-of-00001.tfrecord")

    def listed(uri: str, size: int) -> None:
        shard = Shard(uri=uri, size=size, crc32c="00000000", examples=2)
        write_manifest(str(split), [shard])

    listed(str(path), path.stat().st_size)
    assert check_split(str(tmp_path / "examples"), "test") == 2
    for uri, size in ((str(path), 7), ("/etc/passwd", 1), ("/dev/zero", 1), ("/nope", 1)):
        listed(uri, size)
        with pytest.raises(DataError, match=f"{uri}: expected {size} bytes, as .*{MANIFEST.name} says"):
            check_split(str(tmp_path / "examples"), "test")
    listed(str(path), 1)
    text = (split / MANIFEST.name).read_text()
    for changed in (text.replace('"examples": 2', '"examples": 1'), "{}", "["):
        (split / MANIFEST.name).write_text(changed)
        with pytest.raises(ContractError, match=f"{MANIFEST.name}: expected .*make the examples again"):
            check_split(str(tmp_path / "examples"), "test")


def test_what_lies_in_the_place_of_a_split_is_said(tmp_path):
    def found(folder: Path) -> str:
        with pytest.raises(
            DataError, match="expected a folder Split-train of TFRecord files, found "
        ) as error:
            check_split(str(folder), "train")
        return error.value.message.partition("found ")[2]

    assert found(tmp_path / "none") == "no such folder; correct the path"
    (tmp_path / "images").mkdir()
    assert found(tmp_path / "images").startswith("nothing; ")
    for name in ("a.jpg", "b.PNG"):
        (tmp_path / "images" / name).touch()
    assert found(tmp_path).startswith("2 images; `detflow init FOLDER`")
    write_split(tmp_path / "whole")
    assert found(tmp_path / "whole").startswith("the splits test alone; ")
    for name in ("label_map.pbtxt", "train.record-00000-of-00002", "train.record-00001-of-00002"):
        (tmp_path / "images" / name).touch()
    message = found(tmp_path / "images")
    assert message.startswith("2 TFRecord files without it, such as train.record-00000-of-00002; ")
    assert "--set train_input_path=FILE" in message
    # The newest examples of a workspace are named.
    artifacts = tmp_path / "workspace" / "artifacts"
    examples = artifacts / "example_gen" / "examples"
    for number in ("9", "10"):
        write_split(examples / number)
    statistics = artifacts / "data_validator" / "statistics" / "100" / "Split-test"
    statistics.mkdir(parents=True)
    (statistics / "FeatureStats.pb").touch()
    refused(tmp_path / "workspace", f"found it in {examples}/10; pass that folder")
