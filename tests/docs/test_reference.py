import detection_core
from tests.docs import reference
from tests.support.cases import cases

TEXT = reference.PAGE.read_text(encoding="utf-8")


def test_a_page_that_is_not_what_the_source_gives_is_refused_and_written_again(tmp_path, monkeypatch, capsys):
    # `make lint` and CI check the real pages.
    page = tmp_path / "api.md"
    page.write_text("# old\n")
    monkeypatch.setattr(reference, "ROOT", tmp_path)
    monkeypatch.setattr(reference, "pages", lambda: {page: "# new\n"})
    assert reference.main(["--check"]) == 1
    assert "run: python -m tests.docs.reference" in capsys.readouterr().err
    assert page.read_text() == "# old\n"
    assert reference.main([]) == 0 and page.read_text() == "# new\n"


def test_every_public_name_has_its_place():
    assert [n for n in detection_core.__all__ if f"### `{n}`" not in TEXT and f"| `{n}` |" not in TEXT] == []
    text = reference.MODEL_MAKER_PAGE.read_text(encoding="utf-8")
    for module in reference.MODULES:
        for name in module.__all__:
            assert len(_section(text, name).strip()) > 20, name
    assert "EfficientDetSpec(" in text and "tflite_max_detections: int = 25" in text


def _section(text, name):
    return text.split(f"### `{name}`")[1].split("\n### ")[0]


@cases("train", "evaluate", "quantize", "export", "predict", "load_config")
def test_signatures_are_whole(*, name):
    section = _section(TEXT, name)
    code, argument_table = section.split("```")[1], section.split("| argument | is |")[1]
    for argument in getattr(detection_core, name).__annotations__.keys() - {"return"}:
        assert f"{argument}: " in code and f"| `{argument}` |" in argument_table, argument


def test_the_readme_has_the_example_that_is_executed():
    # tests/detection_core/test_api.py executes it.
    readme = (reference.ROOT / "README.md").read_text(encoding="utf-8")
    assert f"```python\n{reference.example_code(detection_core.__doc__)}\n```" in readme
