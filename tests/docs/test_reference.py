"""The pages agree with the code that they tell of."""

import ast
import datetime
import importlib
import json
import pkgutil
import re
import subprocess
import sys
import types
from pathlib import Path

import jsonschema
import numpy as np
import pytest
import yaml
from PIL import Image

import detection_core
from detection_core import artifacts
from detection_core.artifacts.json_file import JsonFile
from detection_core.artifacts.tflite_metadata import TFLiteDescription
from detection_core.evaluation.runner import load_runner
from detection_core.exporters.tflite_description import add_description
from detection_core.validation.checks import CHECKS
from tests.detection_core.artifacts.test_samples import SAMPLES, read_sample
from tests.docs import reference, site
from tests.docs.artifact_schemas import FOLDER, files, schema_name, schema_of, texts
from tests.support.cases import cases
from tests.support.tiny_files import file_of

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_CODE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
LABELS = ("apple", "pear", "plum")
TEXT = reference.PAGE.read_text(encoding="utf-8")
DECISIONS_FOLDER = Path(__file__).parents[2] / "docs" / "decisions"
RECORDS = sorted(DECISIONS_FOLDER.glob("[0-9]*.md"))
_NAME = re.compile(r"(\d{4})-[a-z0-9]+(-[a-z0-9]+)*\.md")
_STATUS = re.compile(r"accepted|superseded by \[(\d{4})\]\((\d{4}-[a-z0-9-]+\.md)\)")
_SECTIONS = ["Why", "Decision", "Refused"]
PACKAGES = ("detection_core", "component_specs", "components", "pipeline")
_CONSTANT = re.compile(r"([A-Z]+_)*(FORMAT_VERSION|SCHEMA_VERSION|CHECKPOINT_FORMAT)")


def test_the_page_lists_the_checks_with_their_thresholds():
    page = (Path(__file__).parents[2] / "docs" / "data-validation.md").read_text(encoding="utf-8")
    table = page.split("## The checks")[1].split("## Drift")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| ([\d.]+) \|$", table, re.MULTILINE)
    found = [(name, measures, float(threshold)) for name, measures, threshold in rows]
    assert found == [(name, check.measures, check.threshold) for name, check in CHECKS.items()]


def test_every_folder_has_one_sentence_and_the_words_say_what_record_and_step_mean():
    table = PAGE.split("## Rooms")[1].split("## Words")[0]
    named, sentences = zip(*re.findall(r"^\| `([\w/]+)` \| (.+) \|$", table, re.MULTILINE), strict=True)
    packages = ("detection_core", "component_specs", "components", "pipeline")
    files = [path for package in packages for path in (ROOT / package).rglob("__init__.py")]
    folders = {path.parent.relative_to(ROOT).as_posix() for path in files}
    assert folders - set(named) <= {"detection_core"} and set(named) <= folders
    assert len(set(named)) == len(named) == len(set(sentences))
    words = re.findall(r"^\| (\w+) \| (.+?) \|", PAGE.split("## Words")[1], re.MULTILINE)
    assert {"record", "step"} <= {word for word, meaning in words if len(meaning) > 20}


def test_the_schemas_are_those_of_the_dataclasses():
    found = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.json")}
    assert found == texts(), "run: python -m tests.docs.artifact_schemas"
    # Every file has its own.
    names = [schema_name(file) for file in files()]
    assert len(set(names)) == len(names) >= 19


@cases(*SAMPLES)
def test_a_schema_accepts_what_was_written_so_far_and_what_is_written_now(*, sample):
    file = SAMPLES[sample]
    schema = schema_of(file)
    jsonschema.Draft202012Validator.check_schema(schema)
    text = read_sample(sample)
    for line in text.splitlines() if sample.endswith(".jsonl") else [text]:
        jsonschema.validate(json.loads(line), schema)
    if isinstance(file, JsonFile):
        jsonschema.validate(json.loads(file.format(file.parse(text, sample))), schema)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**json.loads(text), file.version_key: file.version + 1}, schema)


def _text(page):
    return _CODE.sub("", page.read_text(encoding="utf-8"))


def _anchors(page):
    for title in re.findall(r"^#+ (.*)$", _text(page), re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower()
        yield re.sub(r"[^\w\- ]", "", words).replace(" ", "-")


@cases(*PAGES)
def test_links_lead_somewhere(*, page):
    for link in _LINK.findall(_text(page)):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not link.startswith(("http:", "https:", "mailto:")):
            assert target.exists(), link
            assert not anchor or target.suffix != ".md" or anchor in _anchors(target), link


def _pages_of(nav):
    for entry in nav:
        (value,) = entry.values()
        yield from _pages_of(value) if isinstance(value, list) else [value]


def test_every_page_is_in_the_site_s_navigation_and_none_has_a_link_out_of_it():
    # `mkdocs build --strict` refuses links that lead nowhere; decisions are listed by their index.
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    found = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    found = {name for name in found if not re.match(r"decisions/\d", name)}
    found |= {f"project/{name}" for name in site.PAGES}
    pages = list(_pages_of(nav))
    assert len(set(pages)) == len(pages) and set(pages) == found
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    how_to = next(entry["How to"] for entry in nav if "How to" in entry)
    assert [page for page in ["index.md", *_pages_of(how_to)] if f"(docs/{page})" not in readme] == []
    assert len(readme.splitlines()) <= 120
    page = types.SimpleNamespace(file=types.SimpleNamespace(src_uri="reference/api.md"))
    text = "[a](../architecture.md#x) [b](../../CONTRIBUTING.md) [c `d`](../../k8s/base/rbac.yaml)"
    text += " [e](https://e.org) [f](#f)"
    expected = "[a](../architecture.md#x) [b](../project/CONTRIBUTING.md) c `d` (`k8s/base/rbac.yaml`)"
    assert site.on_page_markdown(text, page) == f"{expected} [e](https://e.org) [f](#f)"
    page.file.src_uri = "project/SECURITY.md"
    text = "[a](docs/serving.md#models) [b](CONTRIBUTING.md#a-part) [k8s/x.yaml](k8s/x.yaml)"
    expected = "[a](../serving.md#models) [b](CONTRIBUTING.md#a-part) `k8s/x.yaml`"
    assert site.on_page_markdown(text, page) == expected


@cases("float32", "int8")
def test_the_program_for_linux_finds_what_predict_finds(tmp_path, *, name):
    page = (Path(__file__).parents[2] / "docs" / "devices.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page.partition("## Raspberry Pi")[2], re.DOTALL)
    (tmp_path / "program.py").write_text(code.replace("score >= 0.5", "score >= 0.0"), encoding="utf-8")
    description = TFLiteDescription(name="m", mean=(127.5,) * 3, std=(127.5,) * 3, labels=LABELS)
    (tmp_path / "m.tflite").write_bytes(add_description(file_of(name), description))
    pixels = np.random.default_rng(5).integers(0, 256, (32, 32, 3)).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "photo.png")
    command = [sys.executable, "program.py", "m.tflite", "photo.png"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120)
    rows = [line.split(" ") for line in done.stdout.splitlines() if line.split(" ")[0] in LABELS]
    expected = load_runner(str(tmp_path / "m.tflite"))(pixels)
    assert [row[0] for row in rows] == [LABELS[int(label)] for label in expected.classes] and rows
    assert [float(row[1]) for row in rows] == pytest.approx(expected.scores.tolist(), abs=0.0051)


def test_a_page_that_is_not_what_the_source_gives_is_refused_and_written_again(tmp_path, monkeypatch, capsys):
    # `make lint` and CI check the real pages.
    page = tmp_path / "api.md"
    page.write_text("# old\n")
    monkeypatch.setattr(reference, "ROOT", tmp_path)
    monkeypatch.setattr(reference, "pages", lambda: {page: "# new\n"})
    assert reference.main(["--check"]) == 1
    assert "run: python -m tests.docs.reference" in capsys.readouterr().err and page.read_text() == "# old\n"
    assert reference.main([]) == 0 and page.read_text() == "# new\n"


def test_every_public_name_has_its_place_and_signatures_are_whole():
    for name in ("train", "evaluate", "quantize", "export", "predict", "load_config"):
        code, table = (_section(TEXT, name).split(mark)[1] for mark in ("```", "| argument | is |"))
        for argument in getattr(detection_core, name).__annotations__.keys() - {"return"}:
            assert f"{argument}: " in code and f"| `{argument}` |" in table, (name, argument)
    assert [n for n in detection_core.__all__ if f"### `{n}`" not in TEXT and f"| `{n}` |" not in TEXT] == []
    text = TEXT.partition("## Model Maker's names")[2]
    for module in reference.MODULES:
        for name in module.__all__:
            assert len(_section(text, name).strip()) > 20, name
    assert "EfficientDetSpec(" in text and "tflite_max_detections: int = 25" in text


def _section(text, name):
    return text.split(f"### `{name}`")[1].split("\n###")[0]


def test_a_generated_page_says_so_at_its_head_and_the_readme_has_the_example_that_is_executed():
    for name in ("settings.md", "reference/commands.md", "reference/models.md", "reference/api.md"):
        assert "Generated from the" in (ROOT / "docs" / name).read_text(encoding="utf-8").split("\n\n")[1], (
            name
        )
    # tests/detection_core/test_api.py executes it.
    readme = (reference.ROOT / "README.md").read_text(encoding="utf-8")
    assert f"```python\n{reference.example_code(detection_core.__doc__)}\n```" in readme


def _head(path):
    title, empty, date, status, *_ = path.read_text(encoding="utf-8").splitlines()
    assert not empty and date.startswith("Date: ") and status.startswith("Status: ")
    return title.removeprefix("# "), date.removeprefix("Date: "), status.removeprefix("Status: ")


@cases(*enumerate(RECORDS, 1))
def test_a_record_is_whole_and_numbers_have_no_gap(*, number, path):
    assert path.name[:4] == f"{number:04d}" and _NAME.fullmatch(path.name)
    title, date, status = _head(path)
    assert title.startswith(f"{path.name[:4]} ")
    assert datetime.date.fromisoformat(date) >= datetime.date(2026, 11, 20)
    text = path.read_text(encoding="utf-8")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == _SECTIONS
    assert all(section.strip() for section in re.split(r"^## .*$", text, flags=re.MULTILINE))
    found = _STATUS.fullmatch(status)
    assert found, status
    if found[1]:
        later = DECISIONS_FOLDER / found[2]
        assert later.is_file() and later.name.startswith(found[1]) and later.name > path.name
        assert _head(later)[1] >= date


def test_the_index_has_each_record_with_its_date_and_status():
    index = (DECISIONS_FOLDER / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[(\d{4})\]\((.*?)\) \| (.*?) \| (.*?) \| (.*) \|$", index, re.MULTILINE)
    heads = [(path.name[:4], path.name, *_head(path)) for path in RECORDS]
    assert rows == [(number, name, title[5:], *rest) for number, name, title, *rest in heads]


def _rows():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    return re.findall(r"^\| .*? \| (\S+) \| `([\w.]+)` \|$", text, re.MULTILINE)


def _json_files():
    """Every JSON file that is an artifact, or in one."""
    for module in pkgutil.walk_packages(artifacts.__path__, f"{artifacts.__name__}."):
        for name, value in vars(importlib.import_module(module.name)).items():
            if isinstance(value, JsonFile) and name.isupper():
                yield f"{module.name}.{name}"


def _constants():
    """Every constant that says the version of something written."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                names = [t.id for t in getattr(node, "targets", ()) if isinstance(t, ast.Name)]
                if any(_CONSTANT.fullmatch(name) for name in names):
                    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
                    yield from (f"{module}.{name}" for name in names)


def test_versions_are_those_of_the_code_and_none_is_missing():
    found = []
    for _, constant in _rows():
        module, _, name = constant.rpartition(".")
        value = getattr(importlib.import_module(module), name)
        found.append((str(value.version if isinstance(value, JsonFile) else value), constant))
    assert found == _rows()
    listed = [constant for _, constant in _rows()]
    assert len(set(listed)) == len(listed) and {*_constants(), *_json_files()} - set(listed) == set()
