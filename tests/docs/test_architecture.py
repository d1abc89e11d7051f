"""Every package has its sentence, and every sentence its package."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("detection_core", "component_specs", "components", "pipeline")
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
_ROW = re.compile(r"^\| `([\w/]+)` \| (.+) \|$", re.MULTILINE)


def _folders():
    for package in PACKAGES:
        for path in (ROOT / package).rglob("__init__.py"):
            yield path.parent.relative_to(ROOT).as_posix()


def _rooms():
    return _ROW.findall(PAGE.split("## Rooms")[1].split("## Words")[0])


def test_every_folder_has_one_sentence():
    named = [path for path, _ in _rooms()]
    assert len(set(named)) == len(named)
    assert set(_folders()) - set(named) - {"detection_core"} == set()
    assert set(named) - set(_folders()) == set()


def test_no_two_folders_have_the_same_sentence():
    sentences = [sentence for _, sentence in _rooms()]
    assert len(set(sentences)) == len(sentences)


def test_the_words_say_what_record_and_step_mean():
    words = re.findall(r"^\| (\w+) \| (.+?) \|", PAGE.split("## Words")[1], re.MULTILINE)
    assert {"record", "step"} <= {word for word, meaning in words if len(meaning) > 20}
