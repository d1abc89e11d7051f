"""What installed packages add is registered once, counts for the cache, and fails with their name."""

import sys

import pytest

from components.run_checker.code_version import component_version
from detection_core.errors import ConfigError
from detection_core.extensions import load_extensions


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Installs a package whose function is the given code."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def install(body, version="1.2"):
        (tmp_path / "toy_parts.py").write_text(f"calls = []\n\ndef register():\n    {body}\n")
        metadata = tmp_path / "toy_parts.dist-info"
        metadata.mkdir(exist_ok=True)
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: toy-parts\nVersion: {version}\n")
        (metadata / "entry_points.txt").write_text("[detflow.extensions]\ntoy = toy_parts:register\n")
        load_extensions.cache_clear()
        component_version.cache_clear()
        sys.modules.pop("toy_parts", None)

    yield install
    monkeypatch.undo()
    sys.modules.pop("toy_parts", None)
    load_extensions.cache_clear()
    component_version.cache_clear()


def test_a_function_is_called_once_and_named_where_it_fails(package):
    package("calls.append(1)")
    assert load_extensions() == load_extensions() == ("toy-parts==1.2",)
    assert sys.modules["toy_parts"].calls == [1]
    package("raise ValueError('no such part')")
    with pytest.raises(ConfigError, match=r"toy = toy_parts:register: .*ValueError: no such part"):
        load_extensions()


def test_another_version_is_another_component(package):
    plain = component_version("trainer")
    package("pass")
    first = component_version("trainer")
    package("pass", version="1.3")
    assert len({plain, first, component_version("trainer")}) == 3
