import os

import pytest

from detection_core.errors import ConfigError
from pipeline.kubeflow.source import is_package, open_source
from tests.support.compiled import with_short_stack


def _opened(*given):
    """Open and close a source; return it, and whether its file was there meanwhile."""

    def use():
        with open_source(*given) as source:
            return source, os.path.exists(source.package.path)

    return with_short_stack(use)


def test_a_settings_file_is_compiled_for_as_long_as_it_is_used(digits_settings, tmp_path):
    source, there = _opened(digits_settings, ["kubeflow.experiment=mine"])
    assert source.settings.kubeflow.experiment == "mine"
    assert "trainer" in source.package.steps and "train_steps" in source.package.parameters
    assert there and not os.path.exists(source.package.path)
    # The same settings compile to the same content.
    part = tmp_path / "part.config"
    part.write_text("train_config { num_steps: 4 }")
    given = ((["kubeflow.experiment=mine"],), (["train_config.num_steps=3"],), ([], [str(part)]))
    digests = [_opened(digits_settings, *one)[0].package.digest for one in given]
    assert digests[0] == source.package.digest and len(set(digests)) == 3


def test_a_compiled_file_is_taken_as_it_is(digits_settings, package_path, tmp_path):
    with open_source(package_path, []) as source:
        assert source.settings is None and source.package.path == package_path
    for option, given in (("--set", (["a=b"],)), ("--override-file", ([], ["part.config"]))):
        with pytest.raises(ConfigError, match=f"expected no {option} for a compiled pipeline"):
            _opened(package_path, *given)
    assert is_package(package_path) and not is_package(digits_settings)
    with pytest.raises(ConfigError, match="cannot read the file"):
        is_package(str(tmp_path / "none.yaml"))
