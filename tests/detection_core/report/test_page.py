import html.parser
import re
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.artifacts.dataset_card import ClassCard, DatasetCard
from detection_core.report.dataset import DatasetSummary
from detection_core.report.page import CONTENT_SECURITY_POLICY, TEMPLATES, render, shown
from tests.support.cases import refused

ROOT = Path(__file__).parents[3]


class Found(html.parser.HTMLParser):
    """The tags and texts of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: dict[str, str] = {}
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tags.append(tag)
        self.attributes |= dict(attrs)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def page_of(name: str) -> str:
    card = DatasetCard(classes=[ClassCard(name=name, objects=3)])
    return render("dataset_page.html", {"dataset": DatasetSummary(card=card)})


PLAIN = Found(page_of("cat"))


@settings(deadline=None, max_examples=15)
@given(st.text(min_size=1))
def test_whatever_a_text_is_it_stays_one(text):
    found = Found(page_of(text))
    assert found.tags == PLAIN.tags
    assert shown(text) in "".join(found.texts).replace("\r", "\n") or "\r" in text


def test_a_page_forbids_all_but_its_own_pictures_and_no_template_marks_anything_as_safe():
    text = page_of("cat")
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None and html.unescape(policy[1]) == CONTENT_SECURITY_POLICY
    assert CONTENT_SECURITY_POLICY.startswith("default-src 'none'")
    assert "script" not in CONTENT_SECURITY_POLICY
    assert text.index("Content-Security-Policy") < text.index("<style>")
    assert r"a\x00\x1b[31m\u202e&lt;" in page_of("a\0\x1b[31m\u202e<")
    templates = [*Path(TEMPLATES).glob("*.html"), *(ROOT / "pipeline" / "report").glob("*.html")]
    assert len(templates) >= 5
    for path in templates:
        assert not re.search(r"\|\s*safe|autoescape|Markup", path.read_text()), path
    refused(ValueError, r"nowhere\.html", render, "nowhere.html", {})
