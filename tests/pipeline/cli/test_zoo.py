import pytest

from detection_core.builders.detector import build_detector
from detection_core.config.load import format_pipeline_config, parse_pipeline_config
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


def test_detectors_are_listed_and_shown_with_their_facts(cli):
    assert {model["name"] for model in cli.json("zoo", "list")} == {model.name for model in list_models()}
    assert NAME in cli("zoo")
    assert {model["speed"] for model in cli.json("zoo", "list", "--speed", "fast")} == {"fast"}
    found = cli.json("zoo", "show", NAME)
    assert found["coco_map"] == 33.6 and found["licence"] == "Apache-2.0" and found["folder"] is None
    text = cli("zoo", "show", NAME)
    for part in ("512 x 512", "33.6", "Apache-2.0", "20200711", "small", f"start_from: zoo:{NAME}"):
        assert part in text
    for arguments in (["show", "efficientdet_d0"], ["get", "x"], ["get", "imagenet:x"], ["get", "zoo:x"]):
        assert cli.refused("zoo", *arguments).startswith("detflow: ConfigError")


def test_a_detector_is_fetched_and_then_here(cli, cache, tmp_path):
    mirror = ["--mirror", tmp_path / "mirror"]
    mirror[1].mkdir()
    told = cli.refused("zoo", "get", "imagenet:resnet50_v1", *mirror)
    assert "put resnet50_weights_tf_dim_ordering_tf_kernels_notop.h5" in told
    (mirror[1] / f"{NAME}.tar.gz").write_bytes(archive())
    found = cli.json("zoo", "get", NAME, *mirror)
    assert found["checkpoint"] == str(cache / NAME / "checkpoint" / "ckpt-0")
    shown = cli.json("zoo", "show", NAME)
    assert cli.json("zoo", "get", NAME) == found == {**found, "folder": shown["folder"]}
    (row,) = (line for line in cli("zoo", "list").splitlines() if line.startswith(NAME))
    assert row.endswith("yes")


def test_a_detector_is_imported_by_its_name_alone_and_any_other_needs_its_config(tmp_path, cli, monkeypatch):
    config = parse_pipeline_config(config_text(backbone=PLAIN))
    config.model.ssd.num_classes = 90
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
    other = ["--output", tmp_path / "other"]
    assert "--config: expected the config" in cli.refused("import", "--checkpoint", "ckpt-0", *other)
    assert "ssd_mobilenet" in cli.refused("import", "--checkpoint", "zoo:ssd_mobilenet", *other)
    assert not other[1].exists()
