import json
import multiprocessing
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from components.publishing.destination import PushDestination
from detection_core.artifacts.published import PublishedVersion
from detection_core.errors import ContractError
from detection_core.storage import files
from tests.support.cases import refused
from tests.support.object_store import s3_server

NOTHING_TO_RETURN_TO = pytest.raises(ContractError, match="expected a version to return to")


class Destination(PushDestination):
    """A destination and a model that is pushed to it."""

    def __init__(self, root, source):
        super().__init__(str(root))
        self.source = str(source)
        files.write_text(f"{source}/model/saved_model.pb", "graph")
        files.write_text(f"{source}/model/variables/variables.data-00000-of-00001", "weights")
        files.write_text(f"{source}/tflite/model_int8.tflite", "bytes")
        files.write_text(f"{source}/s.json", "{}")

    def push(self, keep=0, tflite=False, extras=None, **fields):
        lite = f"{self.source}/tflite" if tflite else ""
        version = PublishedVersion(number=0, **fields)
        return self.publish(f"{self.source}/model", lite, version, keep, extras=extras or {})

    def push_many(self, count, **options):
        return [self.push(**options).number for _ in range(count)]

    def served(self):
        """What TensorFlow Serving would pick: the highest number below saved_model/."""
        return max(int(n) for n in files.list_dir(f"{self.root}/saved_model") if n.isdigit())


@pytest.fixture
def destination(tmp_path):
    return Destination(tmp_path / "pushed", tmp_path / "source")


def test_a_version_is_complete_and_pointed_at(destination, tmp_path):
    assert destination.current() is None and destination.versions() == []
    assert destination.find("key") is None
    extras = {"box_statistics.json": f"{destination.source}/s.json"}
    version = destination.push(tflite=True, run_key="k", metrics={"mAP": 0.5}, extras=extras)
    assert destination.current() == version == destination.find("k")
    assert files.read_text(f"{destination.saved_model_dir(version.number)}/saved_model.pb") == "graph"
    assert os.listdir(destination.tflite_dir(version.number)) == ["model_int8.tflite"]
    assert destination.served() == version.number
    # What is published within a model is part of the version.
    assert version.files["assets.extra/detflow/box_statistics.json"] == 2
    destination.fetch(version.number, str(tmp_path / "fetched"))
    assert (tmp_path / "fetched" / "assets.extra" / "detflow" / "box_statistics.json").read_text() == "{}"
    for target in (None, 12):
        with NOTHING_TO_RETURN_TO:
            destination.rollback(to=target)


def test_versions_grow_within_a_second_and_old_ones_are_pruned(destination):
    numbers = destination.push_many(4, tflite=True, keep=2)
    assert numbers == sorted(set(numbers))
    assert [v.number for v in destination.versions()] == numbers[-2:]
    assert sorted(os.listdir(f"{destination.root}/tflite")) == [str(n) for n in numbers[-2:]]


def test_rollback_takes_the_newest_out_of_service_and_can_return_to_it(destination):
    first, second = destination.push(run_key="a").number, destination.push(run_key="b").number
    assert destination.rollback().number == first == destination.current().number == destination.served()
    assert destination.rolled_back() == [second]
    assert destination.find("b") is None and destination.find("a") is not None
    assert destination.rollback(to=second).number == second == destination.served()
    assert destination.rolled_back() == []
    assert destination.rollback(to=first).number == first
    third = destination.push().number
    assert third > second and destination.served() == third and destination.rolled_back() == [second]


def test_a_second_rollback_does_not_return_to_what_the_first_one_left(destination):
    numbers = destination.push_many(2)
    destination.rollback()
    numbers += destination.push_many(2)
    assert destination.rollback().number == numbers[2]
    assert destination.rollback().number == numbers[0] == destination.served()
    assert destination.rolled_back() == numbers[1:]


def test_pruning_keeps_the_good_one_and_not_the_one_that_was_rolled_back(destination):
    first, second = destination.push_many(2, keep=2)
    destination.rollback()
    destination.push(keep=2)
    assert destination.rollback().number == first
    with NOTHING_TO_RETURN_TO:
        destination.rollback(to=second)


def test_a_broken_record_or_pointer_is_named_and_made_anew_for_a_version_that_is_named(destination):
    first, number = destination.push_many(2)
    path = f"{destination.root}/versions/{number}.json"
    os.remove(path)
    refused(ContractError, f"{path}: expected the file of the deployed version", destination.current)
    files.write_text(path, json.dumps({"nonsense": 1}))
    for read in (destination.current, destination.rollback):
        refused(ContractError, path, read)
    assert [v.number for v in destination.versions()] == [first]
    assert destination.rollback(first).number == first == destination.served()
    second, third = destination.push_many(2)
    assert second > number
    destination.rollback()
    files.write_text(f"{destination.root}/current.json", "{")
    refused(ContractError, r"current.json.*--to VERSION", destination.rollback)
    assert destination.rollback(second).number == second
    assert third in destination.rolled_back() and destination.rollback().number == first


def test_nothing_without_a_complete_model_is_ever_pointed_at(destination):
    first, second, third = destination.push_many(3)
    files.rename(f"{destination.root}/saved_model", f"{destination.root}/away")
    with NOTHING_TO_RETURN_TO:
        destination.rollback()
    # A folder that is not mounted costs no record.
    assert [v.number for v in destination.versions()] == [first, second, third]
    files.rename(f"{destination.root}/away", f"{destination.root}/saved_model")
    files.remove_tree(f"{destination.saved_model_dir(second)}/variables")
    with NOTHING_TO_RETURN_TO:
        destination.rollback(second)
    assert destination.rollback().number == first == destination.served()


def test_a_reader_that_comes_between_two_versions_gets_the_next(destination, monkeypatch):
    first = destination.push().number
    pointed, late = destination._deployment, []

    def stale():
        found = pointed()
        if not late:
            late.append(Destination(destination.root, destination.source).push().number)
            os.remove(f"{destination.root}/versions/{first}.json")
        return found

    monkeypatch.setattr(destination, "_deployment", stale)
    assert destination.current().number == late[0]


def _push_many(root, source):
    Destination(root, source).push_many(5)


def test_two_writers_at_once_both_end_well(destination):
    context = multiprocessing.get_context("fork")
    places = [(destination.root, f"{destination.source}{n}") for n in "ab"]
    writers = [context.Process(target=_push_many, args=place) for place in places]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert [w.exitcode for w in writers] == [0, 0]
    numbers = [v.number for v in destination.versions()]
    assert len(numbers) == len(set(numbers)) == 10
    assert destination.current().number == numbers[-1] == destination.served()


def test_an_object_store_serves_as_destination(tmp_path):
    with s3_server() as bucket:
        destination = Destination(f"{bucket}/pushed", tmp_path / "source")
        assert destination.current() is None and destination.versions() == []
        extras = {"box_statistics.json": f"{tmp_path}/source/s.json"}
        given = {"keep": 2, "tflite": True, "extras": extras}
        first, second, third = (destination.push(run_key=key, **given) for key in "abc")
        assert first.number < second.number < third.number
        assert destination.current() == third and destination.versions() == [second, third]
        found = files.list_dir(destination.root)
        assert found == [".lock", "current.json", "saved_model", "tflite", "versions"]
        served = destination.saved_model_dir(third.number)
        assert files.read_text(f"{served}/variables/variables.data-00000-of-00001") == "weights"
        assert destination.rollback() == second and destination.rolled_back() == [third.number]
        assert not files.exists(served)
        assert destination.rollback(third.number) == third and files.exists(f"{served}/saved_model.pb")
        folder = str(tmp_path / "fetched")
        assert destination.fetch(third.number, folder) == third
        assert files.read_text(f"{folder}/assets.extra/detflow/box_statistics.json") == "{}"
        assert files.read_text(f"{folder}/saved_model.pb") == "graph"
        # Two writers at once both end well.
        with ThreadPoolExecutor(2) as pool:
            done = [pool.submit(destination.push) for _ in "ab"]
        published = sorted(d.result().number for d in done)
        assert [v.number for v in destination.versions()][-2:] == published
        assert destination.current().number == published[1]
