import json
import multiprocessing
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from components.publishing.destination import PushDestination
from detection_core.artifacts.published import PublishedVersion
from detection_core.errors import ContractError
from detection_core.storage import files
from tests.support.object_store import s3_server


@pytest.fixture
def saved_model(tmp_path):
    folder = tmp_path / "source"
    (folder / "variables").mkdir(parents=True)
    (folder / "saved_model.pb").write_text("graph")
    (folder / "variables" / "variables.data-00000-of-00001").write_text("weights")
    return str(folder)


@pytest.fixture
def tflite(tmp_path):
    folder = tmp_path / "lite"
    folder.mkdir()
    (folder / "model_int8.tflite").write_text("bytes")
    return str(folder)


@pytest.fixture
def destination(tmp_path):
    return PushDestination(str(tmp_path / "pushed"))


def _publish(destination, saved_model, tflite="", keep=0, **fields):
    return destination.publish(saved_model, tflite, PublishedVersion(number=0, **fields), keep)


def _served(destination):
    """What TensorFlow Serving would pick: the highest number below saved_model/."""
    names = os.listdir(os.path.join(destination.root, "saved_model"))
    return max(int(n) for n in names if n.isdigit())


def test_nothing_is_deployed_before_the_first_push(destination):
    assert destination.current() is None
    assert destination.versions() == []
    assert destination.find("key") is None


def test_a_version_is_complete_and_pointed_at(destination, saved_model, tflite):
    version = _publish(destination, saved_model, tflite, run_key="k", metrics={"mAP": 0.5})
    assert destination.current() == version
    assert (
        files.read_text(os.path.join(destination.saved_model_dir(version.number), "saved_model.pb"))
        == "graph"
    )
    assert os.listdir(destination.tflite_dir(version.number)) == ["model_int8.tflite"]
    assert destination.find("k") == version
    assert _served(destination) == version.number


def test_versions_grow_even_within_a_second(destination, saved_model):
    numbers = [_publish(destination, saved_model).number for _ in range(3)]
    assert numbers == sorted(set(numbers))


def test_old_versions_are_pruned(destination, saved_model, tflite):
    numbers = [_publish(destination, saved_model, tflite, keep=2).number for _ in range(4)]
    assert [v.number for v in destination.versions()] == numbers[-2:]
    assert sorted(os.listdir(os.path.join(destination.root, "tflite"))) == [str(n) for n in numbers[-2:]]


def test_rollback_takes_the_newest_out_of_service(destination, saved_model):
    first, second = (_publish(destination, saved_model).number for _ in range(2))
    assert destination.rollback().number == first
    assert destination.current().number == first
    assert _served(destination) == first
    assert destination.rolled_back() == [second]


def test_rollback_can_return_to_what_was_rolled_back(destination, saved_model):
    first, second = (_publish(destination, saved_model).number for _ in range(2))
    destination.rollback()
    assert destination.rollback(to=second).number == second
    assert _served(destination) == second
    assert destination.rolled_back() == []
    assert destination.rollback(to=first).number == first


def test_a_push_after_a_rollback_gets_a_higher_number(destination, saved_model):
    _, second = (_publish(destination, saved_model).number for _ in range(2))
    destination.rollback()
    third = _publish(destination, saved_model).number
    assert third > second
    assert _served(destination) == third
    assert destination.rolled_back() == [second]


def test_rollback_without_an_earlier_version_says_so(destination, saved_model):
    _publish(destination, saved_model)
    with pytest.raises(ContractError, match="expected a version to return to"):
        destination.rollback()
    with pytest.raises(ContractError, match="expected a version to return to"):
        destination.rollback(to=12)


def test_a_rolled_back_run_is_not_found_as_published(destination, saved_model):
    _publish(destination, saved_model, run_key="a")
    _publish(destination, saved_model, run_key="b")
    destination.rollback()
    assert destination.find("b") is None
    assert destination.find("a") is not None


def test_a_second_rollback_does_not_return_to_what_the_first_one_left(destination, saved_model):
    numbers = [_publish(destination, saved_model).number for _ in range(2)]
    destination.rollback()
    numbers += [_publish(destination, saved_model).number for _ in range(2)]
    assert destination.rollback().number == numbers[2]
    assert destination.rollback().number == numbers[0] == _served(destination)
    assert destination.rolled_back() == numbers[1:]


def test_pruning_keeps_the_good_one_and_not_the_one_that_was_rolled_back(destination, saved_model):
    first, second = (_publish(destination, saved_model, keep=2).number for _ in range(2))
    destination.rollback()
    _publish(destination, saved_model, keep=2)
    assert destination.rollback().number == first
    with pytest.raises(ContractError, match="expected a version to return to"):
        destination.rollback(to=second)


def test_a_broken_record_of_the_deployed_version_is_named_and_another_can_be_named(destination, saved_model):
    first, number = (_publish(destination, saved_model).number for _ in range(2))
    path = os.path.join(destination.root, "versions", f"{number}.json")
    files.write_text(path, json.dumps({"nonsense": 1}))
    for read in (destination.current, destination.rollback):
        with pytest.raises(ContractError, match=path):
            read()
    assert [v.number for v in destination.versions()] == [first]
    assert destination.rollback(first).number == first == _served(destination)
    assert _publish(destination, saved_model).number > number


def test_a_broken_pointer_is_made_anew_for_a_version_that_is_named(destination, saved_model):
    first, second, third = (_publish(destination, saved_model).number for _ in range(3))
    destination.rollback()
    files.write_text(os.path.join(destination.root, "current.json"), "{")
    with pytest.raises(ContractError, match=r"current.json.*--to VERSION"):
        destination.rollback()
    assert destination.rollback(second).number == second
    assert destination.rolled_back() == [third] and destination.rollback().number == first


def test_nothing_without_a_complete_model_is_ever_pointed_at(destination, saved_model):
    first, second, _ = (_publish(destination, saved_model).number for _ in range(3))
    files.remove_tree(os.path.join(destination.saved_model_dir(second), "variables"))
    with pytest.raises(ContractError, match="expected a version to return to"):
        destination.rollback(second)
    assert destination.rollback().number == first == _served(destination)


def test_a_folder_that_is_not_mounted_costs_no_record(destination, saved_model):
    numbers = [_publish(destination, saved_model).number for _ in range(3)]
    files.rename(os.path.join(destination.root, "saved_model"), os.path.join(destination.root, "away"))
    with pytest.raises(ContractError, match="expected a version to return to"):
        destination.rollback()
    assert [v.number for v in destination.versions()] == numbers


def test_a_reader_that_comes_between_two_versions_gets_the_next(destination, saved_model, monkeypatch):
    first = _publish(destination, saved_model).number
    pointed, late = destination._deployment, []

    def stale():
        found = pointed()
        if not late:
            late.append(_publish(PushDestination(destination.root), saved_model).number)
            os.remove(os.path.join(destination.root, "versions", f"{first}.json"))
        return found

    monkeypatch.setattr(destination, "_deployment", stale)
    assert destination.current().number == late[0]


def _push_many(root, saved_model):
    for _ in range(5):
        _publish(PushDestination(root), saved_model, keep=0)


def test_two_writers_at_once_both_end_well(destination, saved_model):
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_push_many, args=(destination.root, saved_model)) for _ in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert [w.exitcode for w in writers] == [0, 0]
    numbers = [v.number for v in destination.versions()]
    assert len(numbers) == len(set(numbers)) == 10
    assert destination.current().number == numbers[-1] == _served(destination)


def test_an_object_store_serves_as_destination(tmp_path):
    source, tflite = tmp_path / "source", tmp_path / "tflite"
    files.write_text(str(source / "saved_model.pb"), "graph")
    files.write_text(str(source / "variables" / "variables.data"), "weights")
    files.write_text(str(tflite / "model.tflite"), "flat")
    with s3_server() as bucket:
        destination = PushDestination(f"{bucket}/pushed")
        assert destination.current() is None and destination.versions() == []
        first, second, third = (
            destination.publish(str(source), str(tflite), PublishedVersion(number=0, run_key=key), 2)
            for key in "abc"
        )
        assert destination.current() == third and destination.versions() == [second, third]
        assert files.list_dir(f"{bucket}/pushed") == [
            ".lock",
            "current.json",
            "saved_model",
            "tflite",
            "versions",
        ]
        served = destination.saved_model_dir(third.number)
        assert files.read_text(f"{served}/variables/variables.data") == "weights"
        assert destination.rollback() == second and destination.rolled_back() == [third.number]
        assert not files.exists(served)
        assert destination.rollback(third.number) == third and files.exists(f"{served}/saved_model.pb")
        assert first.number < second.number < third.number


def test_two_writers_on_an_object_store_both_end_well(saved_model):
    with s3_server() as bucket:
        destination = PushDestination(f"{bucket}/pushed")
        with ThreadPoolExecutor(2) as pool:
            done = [
                pool.submit(destination.publish, saved_model, "", PublishedVersion(number=0), 0) for _ in "ab"
            ]
        published = sorted(d.result().number for d in done)
        assert [v.number for v in destination.versions()] == published
        assert destination.current().number == published[1]


def test_what_is_published_within_a_model_is_part_of_the_version(destination, saved_model, tmp_path):
    (tmp_path / "s.json").write_text("{}")
    version = destination.publish(
        saved_model,
        "",
        PublishedVersion(number=0),
        0,
        extras={"box_statistics.json": str(tmp_path / "s.json")},
    )
    assert version.files["assets.extra/detflow/box_statistics.json"] == 2
    destination.fetch(version.number, str(tmp_path / "fetched"))
    assert (tmp_path / "fetched" / "assets.extra" / "detflow" / "box_statistics.json").read_text() == "{}"


def test_what_is_published_within_a_model_reaches_an_object_store(saved_model, tmp_path):
    (tmp_path / "s.json").write_text("{}")
    extras = {"box_statistics.json": str(tmp_path / "s.json")}
    with s3_server() as bucket:
        destination = PushDestination(f"{bucket}/pushed")
        version = destination.publish(saved_model, "", PublishedVersion(number=0), 0, extras=extras)
        folder = str(tmp_path / "fetched")
        assert destination.fetch(version.number, folder) == version
        assert files.read_text(f"{folder}/assets.extra/detflow/box_statistics.json") == "{}"
        assert files.read_text(f"{folder}/saved_model.pb") == "graph"
