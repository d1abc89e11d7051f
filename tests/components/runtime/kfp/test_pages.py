import dataclasses
import re

from components.runtime.kfp.pages import dataset_page, decision_text
from detection_core.artifacts.box_profile import BoxProfiles
from detection_core.artifacts.dataset_card import ClassCard, DatasetCard, QuarantineCard, SplitCard, Totals
from detection_core.artifacts.pushed import PushReport
from detection_core.datasets.box_counter import BoxCounter


def _card(name="<cat>", **changes):
    split = SplitCard(
        images=4, empty_images=1, objects=7, shards=1, classes={name: 7}, quarantined={"bad": 2}
    )
    card = DatasetCard(
        format="coco",
        classes=[ClassCard(id=1, name=name, objects=7)],
        splits={"train": split},
        total=Totals(images=4, objects=7),
        quarantine=QuarantineCard(records=2, fraction=1 / 3, reasons={"bad": 2}),
    )
    return dataclasses.replace(card, **changes)


def test_a_card_shows_splits_classes_and_quarantine():
    page = dataset_page(_card())
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", page)
    assert cells[:5] == ["train", "1", "4", "1", "7"] and "&lt;cat&gt;" in cells
    assert "2 images were rejected" in page and "33.33 % of all: 2 bad" in page
    assert "more than one split" not in page and "Spans" not in page
    page = dataset_page(_card(images_in_two_splits=3, spans={"train": ["1", "2"]}))
    assert "3 images are in more than one split" in page and "train from 1, 2" in page


def _profiles(name="train"):
    counter = BoxCounter()
    counter.add([(0.0, 0.0, 40.0, 20.0)] * 3, 400, 200)
    return BoxProfiles(splits={name: counter.profile()})


def test_a_card_shows_its_boxes_where_they_are_known_and_loads_nothing():
    page = dataset_page(_card(), _profiles())
    assert "<h3>Boxes</h3>" in page and "Size of the boxes" in page and "3 boxes, 100.0 %" in page
    assert page == dataset_page(_card(), _profiles())
    assert "<h3>Boxes</h3>" not in dataset_page(_card())
    assert "://" not in page and "src=" not in page


def test_a_decision_is_plain_markdown():
    pushed = PushReport(pushed=True, version=7, reasons=["every gate blessed it"], path="/p")
    assert decision_text(pushed) == "# Published as version 7\n\n- every gate blessed it\n\nAt `/p`\n"
    refused = decision_text(PushReport(pushed=False, version=None, reasons=["my_class *bad*"]))
    assert refused == "# Not published\n\n- my\\_class \\*bad\\*\n"


def test_nothing_of_a_card_is_markup():
    evil = '"><script>alert(1)</script>'
    split = SplitCard(images=4, classes={evil: 7}, quarantined={evil: 2})
    quarantine = QuarantineCard(records=2, fraction=0.5, reasons={evil: 2})
    given = {"splits": {evil: split}, "spans": {evil: [evil]}, "quarantine": quarantine}
    card = _card(evil, format=evil, **given)
    page = dataset_page(card, _profiles(evil))
    assert "<script" not in page and page.count("&lt;script&gt;") >= 7
    assert "Content-Security-Policy" in page


def test_a_decision_has_no_line_or_code_of_others():
    reason, path = "bad\n\n# Published\n[x](javascript:alert(1))\x1b[31m", "/a`b``c\n# x"
    text = decision_text(PushReport(pushed=False, version=None, reasons=[reason], path=path))
    assert text == (
        "# Not published\n\n- bad\\\\n\\\\n\\# Published\\\\n\\[x\\](javascript:alert(1))\\\\x1b\\[31m\n"
        "\nAt ```/a`b``c\\n# x```\n"
    )
