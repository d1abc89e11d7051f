import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_every_folder_has_one_sentence_of_its_own():
    table = PAGE.split("## Rooms")[1].split("## Words")[0]
    named, sentences = zip(*re.findall(r"^\| `([\w/]+)` \| (.+) \|$", table, re.MULTILINE), strict=True)
    packages = ("detection_core", "component_specs", "components", "pipeline")
    files = [path for package in packages for path in (ROOT / package).rglob("__init__.py")]
    folders = {path.parent.relative_to(ROOT).as_posix() for path in files}
    assert folders - set(named) <= {"detection_core"} and set(named) <= folders
    assert len(set(named)) == len(named) == len(set(sentences))


def test_the_words_say_what_record_and_step_mean():
    words = re.findall(r"^\| (\w+) \| (.+?) \|", PAGE.split("## Words")[1], re.MULTILINE)
    assert {"record", "step"} <= {word for word, meaning in words if len(meaning) > 20}
