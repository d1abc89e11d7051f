import shutil
from pathlib import Path

import pytest

from detection_core import redaction
from tests.support.command_line import CommandLine

DIGITS = Path(__file__).parents[2] / "examples" / "digits"


@pytest.fixture(autouse=True)
def nothing_hidden(monkeypatch):
    """Secrets of one test are ordinary words in the next one."""
    monkeypatch.setattr(redaction, "_hidden", {})


@pytest.fixture(autouse=True, scope="session")
def cache(tmp_path_factory):
    """Nothing is kept in the user's own cache, or found there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DETFLOW_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def cli(capsys):
    """The command line in this process."""
    return CommandLine(capsys)


@pytest.fixture
def digits_settings(tmp_path):
    """The digits example with its own workspace and an empty data folder."""
    folder = tmp_path / "examples" / "digits"
    folder.mkdir(parents=True)
    for name in ("settings.yaml", "pipeline.config"):
        shutil.copy(DIGITS / name, folder)
    (tmp_path / "build" / "digits" / "scenes").mkdir(parents=True)
    return str(folder / "settings.yaml")
