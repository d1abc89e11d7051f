from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from detection_core.config.automl.fates import FATES
from pipeline.cli import parser
from tests.docs.automl_page import PAGE, main, render, table

TEXT = PAGE.read_text(encoding="utf-8")
# Flags of the published tools, each with the values that it may have.
FLAGS = json.loads((Path(__file__).parent / "data" / "automl_cli_flags.json").read_text(encoding="utf-8"))
SECTIONS = dict(re.findall(r"^### (\S+)\.py\n(.*?)(?=^##)", TEXT, re.MULTILINE | re.DOTALL))


def test_the_page_has_the_fate_of_every_hyperparameter() -> None:
    assert main(["--check"]) == 0, "run: python -m tests.docs.automl_page"
    assert all(f"| `{name}` |" in table() for name in FATES)
    assert render(TEXT.replace("| `alpha` |", "| `beta` |")) == TEXT


def test_every_tool_has_its_flags() -> None:
    assert list(SECTIONS) == list(FLAGS)


@pytest.mark.parametrize("tool", FLAGS)
def test_every_flag_is_mapped_once(tool: str) -> None:
    rows = [row.split("|")[1] for row in SECTIONS[tool].splitlines() if row.startswith("| `--")]
    found = [flag for row in rows for flag in re.findall(r"`--(\w+)`", row)]
    assert sorted(found) == sorted(FLAGS[tool])


@pytest.mark.parametrize("tool", FLAGS)
def test_modes_of_a_tool_are_told(tool: str) -> None:
    for mode in FLAGS[tool].get("mode", []):
        assert f"`{mode}`" in SECTIONS[tool], mode


def _commands() -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line]


def test_commands_on_configs_run_as_they_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those that train are parsed by the tests of the command line, and run for real on other configs."""
    monkeypatch.chdir(tmp_path)
    names = "".join(f"  {number}: class{number}\n" for number in range(1, 21))
    Path("voc.yaml").write_text(
        f"name: efficientdet-lite0\nnum_classes: 20\nlabel_map:\n{names}", encoding="utf-8"
    )
    run = [line for line in _commands() if line.startswith(("detflow config", "detflow validate"))]
    assert len(run) == 4
    for line in run:
        Path("label_map.pbtxt").unlink(missing_ok=True)
        assert parser.main(shlex.split(line)[1:]) == 0, line
    printed = capsys.readouterr().out
    assert "voc.yaml: valid hyper-parameters" in printed and "a valid pipeline.config" in printed
