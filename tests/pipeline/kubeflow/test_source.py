from __future__ import annotations

import os

import pytest

from detection_core.errors import ConfigError
from pipeline.kubeflow.source import is_package, open_source


def test_a_settings_file_is_compiled_for_as_long_as_it_is_used(digits_settings):
    with open_source(digits_settings, ["kubeflow.experiment=mine"]) as source:
        assert source.settings.kubeflow.experiment == "mine"
        assert "trainer" in source.package.steps and "train_steps" in source.package.parameters
        assert os.path.exists(source.package.path)
    assert not os.path.exists(source.package.path)


def test_the_same_settings_compile_to_the_same_content(digits_settings, tmp_path):
    digests = set()
    part = tmp_path / "part.config"
    part.write_text("train_config { num_steps: 4 }")
    for given in (([],), ([],), (["train_config.num_steps=3"],), ([], [str(part)])):
        with open_source(digits_settings, *given) as source:
            digests.add(source.package.digest)
    assert len(digests) == 3


def test_a_compiled_file_is_taken_as_it_is(package_path):
    with open_source(package_path, []) as source:
        assert source.settings is None and source.package.path == package_path
    with (
        pytest.raises(ConfigError, match="expected no --set for a compiled pipeline"),
        open_source(package_path, ["a=b"]),
    ):
        pass
    with (
        pytest.raises(ConfigError, match="expected no --override-file for a compiled pipeline"),
        open_source(package_path, [], ["part.config"]),
    ):
        pass


def test_the_two_kinds_of_files_are_told_apart(digits_settings, package_path, tmp_path):
    assert is_package(package_path) and not is_package(digits_settings)
    with pytest.raises(ConfigError, match="cannot read the file"):
        is_package(str(tmp_path / "none.yaml"))
