"""Our HTML pages in a real browser, with hostile text wherever text of others comes in: `make test-browser`.

It installs Chromium where it can, and names it in DETFLOW_BROWSER; elsewhere these tests are skipped.
"""

import dataclasses
import html.parser
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from components.runtime.kfp.views import dataset_page, evaluation_page
from detection_core.artifacts import dataset_card
from detection_core.artifacts.box_profile import BOX_PROFILES, BoxProfiles
from detection_core.artifacts.data_findings import FINDINGS, DataFindings, Finding, FoundExample
from detection_core.artifacts.evaluation import CURVES, METRICS
from detection_core.datasets.counts import BoxCounter
from detection_core.report.data_page import data_page
from detection_core.report.page import Picture
from pipeline.report.writer import render_report
from tests.support.cases import cases
from tests.support.fixture_run import write_run

BROWSER = os.environ.get("DETFLOW_BROWSER", "")
pytestmark = pytest.mark.skipif(not BROWSER, reason="make test-browser runs it, where it finds Chromium")

RUN = "document.documentElement.setAttribute('data-ran','1')"
HOSTILE = "".join(
    (
        f"<script>{RUN}</script>",
        f'"><img src=x onerror={RUN}>',
        f"'><svg/onload={RUN}>",
        f"</style><script>{RUN}</script>",
        f"--></title></textarea><iframe srcdoc='<script>parent.{RUN}</script>'>",
        "<link rel=stylesheet href=http://127.0.0.1:9/x.css><base href=http://127.0.0.1:9/>",
        "<meta http-equiv=refresh content='0;url=http://127.0.0.1:9/'>",
        "{{7*7}}{% raw %}$\\frac{<b>}{x}$&lt;script&gt;\0\x1b[31m\u202e]]>",
    )
)
# What a reader looks for, and so must stay what it is.
_KEYS = {"file", "kind", "quantization"}


def dump(page: str, folder: Path) -> str:
    """Return what a browser makes of a page after its scripts had time to run."""
    path = folder / "page.html"
    path.write_text(page, encoding="utf-8")
    disabled = [f"--disable-{part}" for part in ("gpu", "dev-shm-usage", "extensions")]
    options = ["--headless", "--no-sandbox", "--virtual-time-budget=2000", "--dump-dom", *disabled]
    options.append(f"--user-data-dir={folder / 'profile'}")
    done = subprocess.run([BROWSER, *options, path.as_uri()], capture_output=True, timeout=120, check=True)
    return done.stdout.decode("utf-8", "replace")


def head(dom: str) -> str:
    """Return the tag in which scripts that ran leave an attribute."""
    return re.search(r"<html[^>]*>", dom)[0]


class Tags(html.parser.HTMLParser):
    """The tags, handlers and addresses of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags, self.handlers, self.addresses = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tags.add(tag)
        self.handlers += [name for name, _ in attrs if name.startswith("on")]
        places = ("src", "href", "xlink:href", "srcset", "data", "action")
        self.addresses += [value for name, value in attrs if name in places and value]


def poison(value: object, key: str = "") -> object:
    """Return a structure of JSON with hostile text behind every text in it."""
    if isinstance(value, str):
        return value if key in _KEYS else value + HOSTILE
    if isinstance(value, list):
        return [poison(item, key) for item in value]
    if isinstance(value, dict):
        return {name: poison(item, name) for name, item in value.items()}
    return value


def write_data_folder(folder: str) -> str:
    """A data set as DataValidator leaves it, with hostile text wherever text of others comes in."""
    split = dataset_card.SplitCard(images=1, objects=1, classes={HOSTILE: 1}, quarantined={HOSTILE: 1})
    card = dataset_card.DatasetCard(
        format=HOSTILE,
        classes=[dataset_card.ClassCard(id=1, name=HOSTILE, objects=1)],
        splits={HOSTILE: split},
        quarantine=dataset_card.QuarantineCard(records=1, reasons={HOSTILE: 1}),
    )
    dataset_card.CARD.write(folder, card)
    counter = BoxCounter()
    counter.add([(0.0, 0.0, 4.0, 2.0)], 8, 8)
    BOX_PROFILES.write(folder, BoxProfiles(splits={HOSTILE: counter.profile()}))
    entry = dataset_card.QuarantinedEntry(
        split=HOSTILE, file=HOSTILE, record=HOSTILE, reason=HOSTILE, detail=HOSTILE
    )
    dataset_card.QUARANTINE.write(folder, [entry])
    example = FoundExample(split=HOSTILE, source_id=HOSTILE, record=0, note=HOSTILE, picture=HOSTILE)
    told = {"id": HOSTILE, "message": HOSTILE, "measured": 1.0, "threshold": 0.0}
    finding = Finding(check="schema", severity="warn", examples=[example], **told)
    FINDINGS.write(folder, DataFindings(findings=[finding], checks={"schema": HOSTILE}, images={HOSTILE: 1}))
    return folder


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    root = tmp_path_factory.mktemp("hostile")
    run = write_run(root, images=8)
    for path in root.rglob("*"):
        if path.suffix == ".json":
            path.write_text(json.dumps(poison(json.loads(path.read_text()))))
        elif path.suffix == ".jsonl":
            lines = path.read_text().splitlines()
            path.write_text("".join(json.dumps(poison(json.loads(line))) + "\n" for line in lines))
        elif path.suffix == ".config":
            path.write_text(path.read_text() + HOSTILE.replace("\0", ""))
    card_path = next(root.rglob("dataset_card.json"))
    card = json.loads(card_path.read_text())
    card["splits"] = {name + HOSTILE: split for name, split in card["splits"].items()}
    card |= {"spans": {name: [HOSTILE] for name in card["splits"]}, "format": HOSTILE}
    card.setdefault("images_in_two_splits", 1)
    for split in card["splits"].values():
        split |= {"shards": 1, "quarantined": {HOSTILE: 1}, "classes": {HOSTILE: 1}}
    card["quarantine"]["reasons"] = {HOSTILE: 2}
    card_path.write_text(json.dumps(card))
    steps = tuple(dataclasses.replace(step, error=HOSTILE) for step in run.steps)
    failed = tuple(dataclasses.replace(step, id=step.id + HOSTILE, state="failed") for step in steps)
    told = {"pipeline_name": HOSTILE, "run_id": HOSTILE, "started": HOSTILE, "settings_text": HOSTILE}
    evaluation = Path(next(step for step in run.steps if step.component == "evaluator").outputs["evaluation"])
    metrics = json.loads((evaluation / "metrics.json").read_text()) | {"split": HOSTILE}
    metrics["metrics"] = {name + HOSTILE: value for name, value in metrics["metrics"].items()}
    curves = CURVES.parse((evaluation / "curves.json").read_text(), "curves.json")
    picture = Picture(source_id=HOSTILE, caption=HOSTILE, data="data:image/jpeg;base64,AAAA" + HOSTILE)
    report = METRICS.parse(json.dumps(metrics), "metrics.json")
    return {
        "report": render_report(dataclasses.replace(run, steps=steps, workspace=HOSTILE, **told)),
        "failed": render_report(dataclasses.replace(run, steps=failed, **told)),
        "evaluation": evaluation_page(report, curves, [picture]),
        "dataset": dataset_page(dataset_card.CARD.parse(json.dumps(card), "dataset_card.json")),
        "data": data_page(write_data_folder(str(root / "data")), title=HOSTILE),
    }


@cases("report", "failed", "evaluation", "dataset", "data")
def test_hostile_text_neither_runs_nor_loads(pages, tmp_path, *, name):
    page = pages[name]
    assert "onerror" in page  # the text is in it
    dom = dump(page, tmp_path)
    assert "data-ran" not in head(dom)
    for found in (Tags(page), Tags(dom)):
        assert not found.tags & {"script", "iframe", "object", "embed", "link", "base", "form"}
        assert found.handlers == []
        assert all(address.startswith(("#", "data:image/")) for address in found.addresses)
    assert "\x1b" not in page and "\0" not in page and "\u202e" not in page


@cases("report", "dataset")
def test_the_policy_stops_a_script_that_got_into_the_page(pages, tmp_path, *, name):
    attacks = f"<script>{RUN}</script><img src=x onerror={RUN.replace('data-ran', 'data-handled')}>"
    attacked = pages[name].replace("</body>", f"{attacks}</body>")
    undefended = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", attacked)
    assert undefended != attacked
    for page, runs in ((attacked, False), (undefended, True)):
        tag = head(dump(page, tmp_path))
        assert ["data-ran" in tag, "data-handled" in tag] == [runs, runs]
