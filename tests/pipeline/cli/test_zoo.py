"""The verbs around published detectors."""

import json

import pytest

from detection_core.zoo.published_models import list_models
from pipeline.cli.parser import main
from tests.detection_core.zoo.archives import NAME, archive, use_cache_below


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    return use_cache_below(tmp_path, monkeypatch)


@pytest.fixture
def mirror(tmp_path):
    folder = tmp_path / "mirror"
    folder.mkdir()
    (folder / f"{NAME}.tar.gz").write_bytes(archive())
    return str(folder)


def _json(capsys, *arguments):
    assert main(["zoo", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_list_is_complete_and_the_default(capsys):
    assert {model["name"] for model in _json(capsys, "list")} == {model.name for model in list_models()}
    assert main(["zoo"]) == 0
    assert NAME in capsys.readouterr().out
    assert {model["speed"] for model in _json(capsys, "list", "--speed", "fast")} == {"fast"}


def test_a_detector_is_shown_with_its_facts(capsys):
    found = _json(capsys, "show", NAME)
    assert found["coco_map"] == 33.6 and found["licence"] == "Apache-2.0" and found["folder"] is None
    assert main(["zoo", "show", NAME]) == 0
    text = capsys.readouterr().out
    for part in ("512 x 512", "33.6", "Apache-2.0", "20200711", "small", f"start_from: zoo:{NAME}"):
        assert part in text


def test_a_detector_is_fetched_and_then_here(capsys, cache, mirror):
    found = _json(capsys, "get", NAME, "--mirror", mirror)
    assert found["checkpoint"] == str(cache / NAME / "checkpoint" / "ckpt-0")
    assert _json(capsys, "get", NAME) == found == {**found, "folder": _json(capsys, "show", NAME)["folder"]}
    assert main(["zoo", "list"]) == 0
    (row,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith(NAME))
    assert row.endswith("yes")


def test_what_there_is_not_is_one_message_and_exit_code_2(capsys, mirror):
    for arguments in (["show", "efficientdet_d0"], ["get", "x"], ["get", "imagenet:x"], ["get", "zoo:x"]):
        assert main(["zoo", *arguments]) == 2
        error = capsys.readouterr().err
        assert error.startswith("detflow: ConfigError") and error.count("\n") == 1
    assert main(["zoo", "get", "imagenet:resnet50_v1", "--mirror", mirror]) == 2
    assert "put resnet50_weights_tf_dim_ordering_tf_kernels_notop.h5" in capsys.readouterr().err
