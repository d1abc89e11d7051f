"""Publishing, rolling back and pruning versions, by writers that are killed at each change too."""

import contextlib
import dataclasses
import json
import multiprocessing
import os
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.publishing.destination import PushDestination, predecessor, returned_to, versions_to_prune
from components.publishing.folders import VersionFolders
from detection_core.artifacts import published
from detection_core.artifacts.published import IN_SERVICE, WITHDRAWN, Deployment, PublishedVersion
from detection_core.artifacts.signature import sign_folder
from detection_core.errors import ContractError, StorageError
from detection_core.storage import files, store_lock
from tests.components.publishing.models import leftovers, look, make_model, publish, served_numbers
from tests.support.cases import cases, refused
from tests.support.keys import PRIVATE_KEY, PUBLIC_KEY
from tests.support.object_store import s3_server
from tests.support.storage_faults import KILLED, killed_at, watched

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
        return self.publish(f"{self.source}/model", lite, version, keep, extras=extras or {}, sign=self.sign)

    @staticmethod
    def sign(folder):
        """Sign nothing, unless a test replaces it."""

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


def test_a_rollback_takes_the_deployed_version_out_of_service_when_its_file_is_missing(destination):
    first, second = destination.push_many(2)
    os.remove(f"{destination.root}/versions/{second}.json")
    refused(ContractError, "expected the file of the deployed version", destination.rollback)
    assert destination.rollback(first).number == first == destination.served()
    assert destination.rolled_back() == [second]
    third = destination.push().number
    assert third > second and destination.served() == third and destination.current().number == third


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
    late = []

    def stale(root):
        found = published.read_deployment(root)
        monkeypatch.undo()
        late.append(Destination(destination.root, destination.source).push().number)
        os.remove(f"{destination.root}/versions/{first}.json")
        return found

    monkeypatch.setattr("components.publishing.destination.read_deployment", stale)
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
        # A signed version, and a changed byte of it.
        destination.sign = lambda folder: sign_folder(folder, PRIVATE_KEY, "detector", {})
        signed, later = destination.push(tflite=True), destination.push()
        changed = f"{destination.tflite_dir(signed.number)}/model_int8.tflite"
        files.write_text(changed, "bytez")
        refused(ContractError, "other: model_int8.tflite", destination.rollback, signed.number, PUBLIC_KEY)
        refused(ContractError, "expected model.sig", destination.rollback, third.number, PUBLIC_KEY)
        assert destination.current() == later
        files.write_text(changed, "bytes")
        assert destination.rollback(signed.number, PUBLIC_KEY) == signed


@pytest.fixture
def folders(tmp_path):
    return VersionFolders(str(tmp_path))


def _add(folders, number, place=IN_SERVICE):
    folder = make_model(folders.path(place, number), "m")
    version = PublishedVersion(number=number, files=files.sizes(folder))
    files.write_text(folders.version_path(number), published.VERSION.format(version))
    return folder


def test_whole_is_what_has_its_files_at_their_size(folders):
    path = os.path.join(_add(folders, 5), "variables/variables.index")
    assert folders.complete() == [5]
    files.write_text(path, "short")
    assert folders.complete() == []


def test_a_whole_model_goes_out_of_service_and_back_and_half_a_model_does_not(folders):
    folder = _add(folders, 5)
    for out, here, gone in ((True, WITHDRAWN, IN_SERVICE), (False, IN_SERVICE, WITHDRAWN)):
        folders.move(5, out=out)
        assert folders.is_complete(here, 5) and not folders.is_complete(gone, 5)
    folders.move(5, out=True)
    files.remove_tree(os.path.join(folders.path(WITHDRAWN, 5), "saved_model.pb"))
    folders.move(5, out=False)
    assert not files.exists(folder)


def test_what_others_put_there_counts_and_stays_and_what_no_version_owns_is_tidied_away(folders, caplog):
    _add(folders, 5)
    make_model(folders.path(IN_SERVICE, 90), "somebody else's")
    assert folders.newest_number() == 90 and folders.numbers() == [5]
    make_model(folders.path("tflite", 3), "of a killed push")
    make_model(folders.path(IN_SERVICE, ".7.0123abcd.partial"), "of a killed push")
    folders.tidy()
    assert os.listdir(folders.path("tflite")) == []
    assert sorted(os.listdir(folders.path(IN_SERVICE))) == ["5", "90"]
    assert "was not published by detflow" in caplog.text


def test_a_file_in_place_of_a_folder_is_named_and_a_folder_that_comes_late_is_no_file(folders, monkeypatch):
    files.write_text(folders.path("versions"), "x")
    refused(StorageError, "expected a folder, found a file", folders.numbers)
    files.remove_tree(folders.path("versions"))

    def looks_before_it_comes(path, is_dir=files.is_dir):
        found = is_dir(path)
        files.make_dirs(path)
        return found

    monkeypatch.setattr(files, "is_dir", looks_before_it_comes)
    assert folders.numbers() == []


_NUMBERS = st.sets(st.integers(1, 9))


def test_the_predecessor_is_the_newest_earlier_one_in_service():
    assert predecessor(Deployment(4, (2,)), [1, 2, 3, 4]) == 3
    assert predecessor(Deployment(3, (2,)), [1, 2, 3]) == 1
    assert predecessor(Deployment(1, (2,)), [1, 2]) is None
    assert predecessor(Deployment(None, ()), [1]) is None
    assert versions_to_prune(Deployment(3, (2,)), [1, 2, 3], keep=2) == [2]
    assert versions_to_prune(Deployment(5, (4,)), [1, 2, 3, 4, 5], keep=3) == [4, 1]
    assert versions_to_prune(Deployment(2, ()), [1, 2], keep=1) == []
    assert versions_to_prune(Deployment(3, ()), [1, 2, 3], keep=0) == []
    # What was rolled back stays so when another rollback follows.
    first = returned_to(Deployment(2, ()), 1, [1, 2])
    second = returned_to(dataclasses.replace(first, version=4), 3, [1, 2, 3, 4])
    assert (first, second) == (Deployment(1, (2,)), Deployment(3, (2, 4)))
    assert predecessor(second, [1, 2, 3, 4]) == 1


@given(_NUMBERS, _NUMBERS, st.integers(1, 9), st.integers(1, 9))
def test_only_the_target_comes_back_and_nothing_later_stays(known, out, current, target):
    after = returned_to(Deployment(current, tuple(sorted(out))), target, known)
    assert after.version == target
    assert set(after.rolled_back) == (out | {n for n in known if n > target}) - {target}


@given(_NUMBERS, _NUMBERS, st.integers(1, 9), st.integers(0, 9))
def test_the_deployed_one_and_its_predecessor_are_never_pruned(whole, out, current, keep):
    deployment = Deployment(current, tuple(sorted(out - {current})))
    gone = versions_to_prune(deployment, whole, keep)
    assert not {current, predecessor(deployment, whole)} & set(gone)
    assert len(whole) - len(gone) <= max(keep, 2) or not keep
    assert not gone or len(whole) - len(gone) >= keep


@pytest.fixture
def models(tmp_path):
    lite = tmp_path / "lite"
    files.write_text(str(lite / "model.tflite"), "flat")
    return [make_model(tmp_path / f"model{n}", f"m{n}") for n in range(6)], str(lite)


_COMMANDS = {
    "publish": lambda d, m, n: publish(d, m[0][4], m[1]),
    "publish and prune": lambda d, m, n: publish(d, m[0][4], m[1], keep=2),
    "roll back": lambda d, m, n: d.rollback(),
    "return to an older one": lambda d, m, n: d.rollback(n[0]),
    "return to a rolled-back one": lambda d, m, n: d.rollback(n[3]),
}


@cases(*_COMMANDS)
def test_a_local_writer_killed_at_any_change_leaves_whole_versions(tmp_path, models, *, name):
    _kill_at_each_change(str(tmp_path / "base"), str(tmp_path / "work"), models, _COMMANDS[name])


@pytest.mark.parametrize("name", _COMMANDS)
@pytest.mark.faults
@pytest.mark.timeout(1800)
def test_a_writer_on_s3_killed_at_every_fifth_change_leaves_whole_versions(models, name, monkeypatch):
    monkeypatch.setattr(store_lock, "_STALE_SECONDS", -1)
    with s3_server() as bucket:
        _kill_at_each_change(f"{bucket}/base", f"{bucket}/work", models, _COMMANDS[name], step=5)


def _kill_at_each_change(base, work, models, command, step=1):
    remote = files.is_remote(base)
    saved, lite = models
    numbers = [publish(PushDestination(base), model, lite).number for model in saved[:4]]
    PushDestination(base).rollback()
    returns = command is _COMMANDS["return to a rolled-back one"]
    out = numbers[3]
    at, killed = 1 - step, True
    while killed:
        at += step
        files.remove_tree(work)
        (files.copy_tree if remote else shutil.copytree)(base, work)
        destination = PushDestination(work)
        with watched(killed_at(at, remote=remote), remote=remote), contextlib.suppress(KILLED):
            command(destination, models, numbers)
            killed = False
        deployed = look(work)
        assert not killed or returns or out not in served_numbers(work)
        assert deployed in numbers[:3] or deployed > out or returns
        last = publish(destination, saved[5], lite)
        assert look(work) == last.number == served_numbers(work)[-1]
        assert leftovers(work) == []
        # What a killed push had shown already is finished by the next writer.
        assert destination.rollback().number in (deployed, *range(out + 1, last.number))
    assert at > 5
