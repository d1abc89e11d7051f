import json
import os

import pytest

from detection_core.config.load import load_pipeline_config
from detection_core.config.paths.overrides import apply_overrides
from detection_core.errors import ConfigError
from pipeline import descriptions
from pipeline.descriptions import KeptDescription, describe_config
from tests.support.cases import refused
from tests.support.configs import PYRAMID


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("DETFLOW_CACHE", str(folder))
    return folder


@pytest.fixture
def built(monkeypatch):
    """Count what is built, in place of building it."""
    found = []

    def build(config):
        found.append(config.model.ssd.num_classes)
        if not config.HasField("train_config"):
            raise ConfigError("expected a train_config, found none")
        return KeptDescription(text=f"number {len(found)}", data={"number": len(found)})

    monkeypatch.setattr(descriptions, "_build", build)
    return found


def _config(**overrides):
    named = {key.replace("__", "."): value for key, value in overrides.items()}
    return apply_overrides(load_pipeline_config(PYRAMID), named)


def test_what_is_kept_is_what_the_network_says(monkeypatch):
    config = _config(model__ssd__feature_extractor__depth_multiplier=0.35)
    first = describe_config(config)
    assert "ssd_mobilenet_v2_fpn_keras" in first.text
    assert first.data["anchors"] == 8160
    monkeypatch.setattr(descriptions, "_build", lambda config: pytest.fail("built again"))
    assert describe_config(config) == first


def test_what_differs_is_built_and_an_error_is_never_kept(built):
    for classes in (3, 4, 3):
        describe_config(_config(model__ssd__num_classes=classes))
    assert built == [3, 4]
    wrong, remote = _config(), _config(train_config__fine_tune_checkpoint="s3://bucket/ckpt-1")
    wrong.ClearField("train_config")
    for number in range(2):
        refused(ConfigError, "expected a train_config", describe_config, wrong)
        describe_config(remote)  # a file that may have changed
        assert len(built) == 2 + 2 * (number + 1)


def test_a_changed_checkpoint_code_or_variable_is_followed(tmp_path, built, monkeypatch):
    prefix = str(tmp_path / "ckpt-1")
    config = _config(train_config__fine_tune_checkpoint=prefix)
    assert describe_config(config).text == "number 1"
    (tmp_path / "ckpt-1.index").write_bytes(b"one")
    assert describe_config(config).text == "number 2"
    os.utime(tmp_path / "ckpt-1.index", ns=(1, 1))
    assert describe_config(config).text == describe_config(config).text == "number 3"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    assert describe_config(config).text == "number 4"
    monkeypatch.setattr(descriptions, "_code", lambda: [("module.py", 1, 1)])
    assert describe_config(config).text == "number 5"


def test_a_damaged_entry_is_made_again_and_a_cache_that_cannot_be_written_keeps_nothing(
    own_cache, built, tmp_path, monkeypatch
):
    describe_config(_config())
    (entry,) = (own_cache / "descriptions").iterdir()
    for number, content in enumerate(("", "{", "[]", '{"text": "no data"}'), start=2):
        entry.write_text(content)
        assert describe_config(_config()).text == f"number {number}"
        assert json.loads(entry.read_text()) == {"text": f"number {number}", "data": {"number": number}}
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DETFLOW_CACHE", str(tmp_path / "file" / "below"))
    assert [describe_config(_config()).text for _ in range(2)] == ["number 6", "number 7"]


def test_the_oldest_entries_go(own_cache, built, monkeypatch):
    monkeypatch.setattr(descriptions, "_KEPT", 2)
    for number, classes in enumerate((3, 4, 5)):
        describe_config(_config(model__ssd__num_classes=classes))
        for entry in (own_cache / "descriptions").iterdir():
            state = os.stat(entry)
            os.utime(entry, ns=(state.st_atime_ns, state.st_mtime_ns - 10**9 * (number + 1)))
    assert len(list((own_cache / "descriptions").iterdir())) == 2
    describe_config(_config(model__ssd__num_classes=5))
    assert built == [3, 4, 5]
