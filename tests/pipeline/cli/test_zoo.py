"""The verbs around published detectors."""

import pytest

from detection_core.builders.detector import build_detector
from detection_core.config.load import format_pipeline_config, parse_pipeline_config
from detection_core.config.paths.overrides import apply_overrides
from detection_core.detectors.ssd.checkpoint_names.object_keys import object_keys
from detection_core.exporters.detector_folder import load_detector
from detection_core.training.object_checkpoint import VARIABLE_SUFFIX
from detection_core.zoo.coco_classes import COCO_CLASSES
from detection_core.zoo.published_models import list_models
from tests.support.archives import NAME, archive, use_cache_below
from tests.support.field_checkpoints import write_object_checkpoint
from tests.support.plain_backbone import PLAIN
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


def test_the_list_is_complete_and_the_default(cli):
    assert {model["name"] for model in cli.json("zoo", "list")} == {model.name for model in list_models()}
    assert NAME in cli("zoo")
    assert {model["speed"] for model in cli.json("zoo", "list", "--speed", "fast")} == {"fast"}


def test_a_detector_is_shown_with_its_facts(cli):
    found = cli.json("zoo", "show", NAME)
    assert found["coco_map"] == 33.6 and found["licence"] == "Apache-2.0" and found["folder"] is None
    text = cli("zoo", "show", NAME)
    for part in ("512 x 512", "33.6", "Apache-2.0", "20200711", "small", f"start_from: zoo:{NAME}"):
        assert part in text


def test_a_detector_is_fetched_and_then_here(cli, cache, mirror):
    found = cli.json("zoo", "get", NAME, "--mirror", mirror)
    assert found["checkpoint"] == str(cache / NAME / "checkpoint" / "ckpt-0")
    shown = cli.json("zoo", "show", NAME)
    assert cli.json("zoo", "get", NAME) == found == {**found, "folder": shown["folder"]}
    (row,) = (line for line in cli("zoo", "list").splitlines() if line.startswith(NAME))
    assert row.endswith("yes")


def test_what_there_is_not_is_one_message_and_exit_code_2(cli, mirror):
    for arguments in (["show", "efficientdet_d0"], ["get", "x"], ["get", "imagenet:x"], ["get", "zoo:x"]):
        assert cli.refused("zoo", *arguments).startswith("detflow: ConfigError")
    told = cli.refused("zoo", "get", "imagenet:resnet50_v1", "--mirror", mirror)
    assert "put resnet50_weights_tf_dim_ordering_tf_kernels_notop.h5" in told


def test_a_detector_is_imported_by_its_name_alone(tmp_path, cli, monkeypatch):
    config = apply_overrides(
        parse_pipeline_config(config_text(backbone=PLAIN)), {"model.ssd.num_classes": 90}
    )
    keys = object_keys(build_detector(config.model).network)
    values = {key.removesuffix(VARIABLE_SUFFIX): variable.numpy() for key, variable in keys.items()}
    write_object_checkpoint(values, tmp_path / "ckpt-0")
    content = {f"checkpoint/{path.name}": path.read_bytes() for path in tmp_path.glob("ckpt-0.*")}
    content["checkpoint/checkpoint"] = b'model_checkpoint_path: "ckpt-0"\n'
    content["pipeline.config"] = format_pipeline_config(config).encode()
    (tmp_path / f"{NAME}.tar.gz").write_bytes(archive(content))
    monkeypatch.setenv("DETFLOW_WEIGHTS_MIRROR", str(tmp_path))
    told = cli("import", "--checkpoint", f"zoo:{NAME}", "--output", tmp_path / "made")
    assert f": {len(values)} restored, " in told and f" 0 moving averages and {len(values)} plain" in told
    made = load_detector(str(tmp_path / "made" / "model"))
    assert made.info.extra["started_from"] == f"zoo:{NAME}" and made.model.num_classes == 90
    assert {item.id: item.name for item in made.label_map.items} == COCO_CLASSES


def test_what_is_no_detector_of_the_zoo_needs_its_config(tmp_path, cli):
    made = ["--output", tmp_path / "made"]
    assert "--config: expected the config" in cli.refused("import", "--checkpoint", "ckpt-0", *made)
    assert "ssd_mobilenet" in cli.refused("import", "--checkpoint", "zoo:ssd_mobilenet", *made)
    assert not (tmp_path / "made").exists()
