from __future__ import annotations

from components.runtime.kfp.pages import dataset_page, decision_text
from detection_core.artifacts.pushed import PushReport

_SPLIT = {"images": 4, "empty_images": 1, "objects": 7, "shards": 1, "quarantined": {"bad": 2}}


def _card(**changes):
    return {
        "format": "coco",
        "total": {"images": 4, "objects": 7},
        "classes": [{"id": 1, "name": "<cat>", "objects": 7}],
        "splits": {"train": {**_SPLIT, "classes": {"<cat>": 7}}},
        "quarantine": {"records": 2, "fraction": 1 / 3, "reasons": {"bad": 2}},
        "images_in_two_splits": 0,
        **changes,
    }


def test_a_card_shows_splits_classes_and_quarantine():
    page = dataset_page(_card())
    assert "<td>train</td><td>4</td><td>1</td><td>7</td><td>1</td><td>2</td>" in page
    assert "<td>&lt;cat&gt;</td><td>7</td><td>7</td>" in page
    assert "2 records, 0.3333 of all" in page and "bad: 2" in page
    assert "more than one split" not in page and "spans" not in page


def test_a_card_warns_and_names_spans():
    page = dataset_page(_card(images_in_two_splits=3, spans={"train": ["1", "2"]}))
    assert "3 images are in more than one split" in page and "train: spans 1, 2" in page


def test_a_page_loads_nothing():
    page = dataset_page(_card())
    assert "://" not in page and "src=" not in page


def test_a_decision_is_plain_markdown():
    pushed = PushReport(pushed=True, version=7, reasons=["every gate blessed it"], path="/p")
    assert decision_text(pushed) == "# Published as version 7\n\n- every gate blessed it\n\nAt `/p`\n"
    refused = decision_text(PushReport(pushed=False, version=None, reasons=["my_class *bad*"]))
    assert refused == "# Not published\n\n- my\\_class \\*bad\\*\n"


def test_nothing_of_a_card_is_markup():
    evil = '"><script>alert(1)</script>'
    split = {**_SPLIT, "images": evil, "classes": {evil: evil}, "quarantined": {evil: 2}}
    card = _card(
        format=evil,
        total={"images": evil, "objects": evil},
        images_in_two_splits=evil,
        splits={evil: split},
        classes=[{"name": evil, "objects": evil}],
        spans={evil: [evil]},
        quarantine={"records": evil, "fraction": 0.5, "reasons": {evil: evil}},
    )
    page = dataset_page(card)
    assert "<script" not in page and page.count("&lt;script&gt;") >= 12
    assert "Content-Security-Policy" in page


def test_a_decision_has_no_line_or_code_of_others():
    reason, path = "bad\n\n# Published\n[x](javascript:alert(1))\x1b[31m", "/a`b``c\n# x"
    text = decision_text(PushReport(pushed=False, version=None, reasons=[reason], path=path))
    assert text == (
        "# Not published\n\n- bad\\\\n\\\\n\\# Published\\\\n\\[x\\](javascript:alert(1))\\\\x1b\\[31m\n"
        "\nAt ```/a`b``c\\n# x```\n"
    )
