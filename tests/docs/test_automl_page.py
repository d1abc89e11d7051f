import json
import re
import shlex
from pathlib import Path

import pytest
from PIL import Image

from detection_core.config.automl.hyperparameters import SUPPORT
from pipeline.cli import parser
from tests.support.made_examples import Made, write_examples

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "migrating.md").read_text(encoding="utf-8")
TEXT = TEXT.partition("## From google/automl")[2].partition("\n## ")[0] + "\n## "
# Flags of the published tools, each with the values that it may have.
FLAGS = json.loads((Path(__file__).parent / "data" / "automl_cli_flags.json").read_text(encoding="utf-8"))
SECTIONS = dict(re.findall(r"^### (\S+)\.py\n(.*?)(?=^##)", TEXT, re.MULTILINE | re.DOTALL))


def test_every_flag_is_mapped_once_and_the_reference_has_every_hyperparameter():
    assert list(SECTIONS) == list(FLAGS)
    for tool, section in SECTIONS.items():
        rows = [row.split("|")[1] for row in section.splitlines() if row.startswith("| `--")]
        found = [flag for row in rows for flag in re.findall(r"`--(\w+)`", row)]
        assert sorted(found) == sorted(FLAGS[tool]), tool
        for mode in FLAGS[tool].get("mode", FLAGS[tool].get("runmode", [])):
            assert f"`{mode}`" in section, (tool, mode)
    text = (DOCS / "reference" / "models.md").read_text(encoding="utf-8")
    rows = [f"| `{name}` | {support.kind} | {support.text} |" for name, support in SUPPORT.items()]
    assert "\n".join(rows) in text


def _commands() -> list[list[str]]:
    blocks = re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
    return [shlex.split(line)[1:] for block in blocks for line in block.splitlines() if line]


def test_commands_on_configs_run_as_they_stand(tmp_path, monkeypatch, capsys):
    """Those that train are parsed by the tests of the command line, and run for real on other configs."""
    monkeypatch.chdir(tmp_path)
    names = "".join(f"  {number}: class{number}\n" for number in range(1, 21))
    Path("voc.yaml").write_text(f"name: efficientdet-lite0\nnum_classes: 20\nlabel_map:\n{names}")
    run = [words for words in _commands() if words[0] in ("config", "validate")]
    assert len(run) == 4
    for words in run:
        Path("label_map.pbtxt").unlink(missing_ok=True)
        assert parser.main(words) == 0, words
    printed = capsys.readouterr().out
    assert "voc.yaml: valid hyper-parameters" in printed and "a valid pipeline.config" in printed


@pytest.mark.zoo
def test_commands_that_train_run_as_they_stand(tmp_path, monkeypatch, capsys):
    """With a small model and few images, where the page has the user's own."""
    monkeypatch.chdir(tmp_path)
    made = [Made(boxes=((0.1, 0.1, 0.5, 0.4),), classes=("dog",)) for _ in range(4)]
    write_examples(tmp_path / "EXAMPLES", {"train": made, "eval": made[:2]})
    Image.new("RGB", (60, 40)).save("photo.jpg")
    small = "num_classes=2,image_size=64,fpn_cell_repeats=1,box_class_repeats=1,grid_mask=true"
    small += ",autoaugment_policy=randaug,map_freq=1,lr_warmup_epoch=0.5"
    length = "--batch-size 2 --num-examples-per-epoch 4 --num-epochs 1 -o pipeline.config"
    translated = ["config", "from-automl", "efficientdet-lite0", "--hparams", small, *length.split()]
    training, serving = _commands()[4:7], _commands()[7:]
    verbs = [words[0] for words in [*serving, *training]]
    assert verbs == ["export-saved-model", "bench", "predict", "train", "evaluate", "predict"]
    for words in (translated, *training, *serving):
        assert parser.main(words) == 0, (words, capsys.readouterr().err)
    assert Path("build/evaluated/evaluation").is_dir()
