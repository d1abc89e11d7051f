import pytest

import detection_core
from tests.docs import reference


def test_the_page_is_what_the_source_gives():
    assert reference.main(["--check"]) == 0


def test_every_public_name_has_its_place():
    text = reference.PAGE.read_text(encoding="utf-8")
    for name in detection_core.__all__:
        assert f"### `{name}`" in text or f"| `{name}` |" in text


def test_every_name_of_model_maker_has_its_place():
    text = reference.MODEL_MAKER_PAGE.read_text(encoding="utf-8")
    for module in reference.MODULES:
        for name in module.__all__:
            section = text.split(f"### `{name}`")[1].split("\n### ")[0]
            assert len(section.strip()) > 20, name
    assert "EfficientDetSpec(" in text and "tflite_max_detections: int = 25" in text


def test_another_page_is_refused_and_written_anew(tmp_path, monkeypatch, capsys):
    page = tmp_path / "api.md"
    page.write_text("# old\n")
    monkeypatch.setattr(reference, "ROOT", tmp_path)
    monkeypatch.setattr(reference, "pages", lambda: {page: "# new\n"})
    assert reference.main(["--check"]) == 1
    assert "run: python -m tests.docs.reference" in capsys.readouterr().err
    assert page.read_text() == "# old\n"
    assert reference.main([]) == 0 and page.read_text() == "# new\n"


@pytest.mark.parametrize("name", ["train", "evaluate", "quantize", "export", "predict", "load_config"])
def test_signatures_are_whole(name):
    text = reference.PAGE.read_text(encoding="utf-8")
    section = text.split(f"### `{name}`")[1].split("\n### ")[0]
    code, argument_table = section.split("```")[1], section.split("| argument | is |")[1]
    for argument in getattr(detection_core, name).__annotations__:
        if argument != "return":
            assert f"{argument}: " in code and f"| `{argument}` |" in argument_table


def test_the_readme_has_the_example_that_is_executed():
    # tests/detection_core/test_api.py executes it.
    readme = (reference.ROOT / "README.md").read_text(encoding="utf-8")
    assert f"```python\n{reference.example_code(detection_core.__doc__)}\n```" in readme
