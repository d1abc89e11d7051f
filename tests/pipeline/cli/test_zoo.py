"""The verbs around published detectors."""

import json

import pytest

from detection_core.builders.detector import build_detector
from detection_core.config.load import format_pipeline_config, parse_pipeline_config
from detection_core.config.paths.overrides import apply_overrides
from detection_core.detectors.ssd.checkpoint_names.object_keys import object_keys
from detection_core.exporters.detector_folder import load_detector
from detection_core.training.object_checkpoint import VARIABLE_SUFFIX
from detection_core.zoo.coco_classes import COCO_CLASSES
from detection_core.zoo.published_models import list_models
from pipeline.cli.parser import main
from tests.support.archives import NAME, archive, use_cache_below
from tests.support.field_checkpoints import write_object_checkpoint
from tests.support.tiny_training import config_text


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


def test_a_detector_is_imported_by_its_name_alone(tmp_path, capsys, monkeypatch):
    config = apply_overrides(parse_pipeline_config(config_text()), {"model.ssd.num_classes": 90})
    keys = object_keys(build_detector(config.model).network)
    values = {key.removesuffix(VARIABLE_SUFFIX): variable.numpy() for key, variable in keys.items()}
    write_object_checkpoint(values, tmp_path / "ckpt-0")
    content = {f"checkpoint/{path.name}": path.read_bytes() for path in tmp_path.glob("ckpt-0.*")}
    content["checkpoint/checkpoint"] = b'model_checkpoint_path: "ckpt-0"\n'
    content["pipeline.config"] = format_pipeline_config(config).encode()
    (tmp_path / f"{NAME}.tar.gz").write_bytes(archive(content))
    monkeypatch.setenv("DETFLOW_WEIGHTS_MIRROR", str(tmp_path))
    assert main(["import", "--checkpoint", f"zoo:{NAME}", "--output", str(tmp_path / "made"), "--json"]) == 0
    outcome = json.loads(capsys.readouterr().out)
    assert (outcome["restored"], outcome["moving_averages"]) == (len(values), 0)
    made = load_detector(outcome["model"])
    assert made.info.extra["started_from"] == f"zoo:{NAME}"
    assert main(["import", "--checkpoint", f"zoo:{NAME}", "--output", str(tmp_path / "told")]) == 0
    told = capsys.readouterr().out
    assert f": {len(values)} restored, " in told and f" 0 moving averages and {len(values)} plain" in told
    assert {
        item.id: item.name for item in made.label_map.items
    } == COCO_CLASSES and made.model.num_classes == 90


def test_what_is_no_detector_of_the_zoo_needs_its_config(tmp_path, capsys):
    assert main(["import", "--checkpoint", "ckpt-0", "--output", str(tmp_path / "made")]) == 2
    assert "--config: expected the config" in capsys.readouterr().err
    assert main(["import", "--checkpoint", "zoo:ssd_mobilenet", "--output", str(tmp_path / "made")]) == 2
    assert "ssd_mobilenet" in capsys.readouterr().err and not (tmp_path / "made").exists()
