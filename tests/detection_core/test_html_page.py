from __future__ import annotations

import html.parser

from hypothesis import given
from hypothesis import strategies as st

from detection_core.html_page import CONTENT_SECURITY_POLICY, Markup, escape, fill, join, page, shown


class Found(html.parser.HTMLParser):
    """The tags and texts of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: dict[str, str] = {}
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tags.append(tag)
        self.attributes |= dict(attrs)

    def handle_data(self, data: str) -> None:
        self.text += data


@given(st.text())
def test_whatever_a_text_is_it_stays_one(text: str) -> None:
    found = Found(fill('<p title="{0}">{0}</p>', text))
    assert found.tags == ["p"]
    assert found.text == found.attributes["title"] == shown(text)


def test_markup_is_not_escaped_twice() -> None:
    assert join([Markup("<b>"), "<b>"]) == "<b>&lt;b&gt;"
    assert fill("{}", escape("a&b")) == "a&amp;b"


def test_control_characters_are_written_out() -> None:
    assert escape("a\0\x1b[31m\u202e<") == r"a\x00\x1b[31m\u202e&lt;"


def test_a_page_forbids_all_but_its_own_pictures_and_styles() -> None:
    text = page("<t>", "p{}", "<script>", Markup("<p>x</p>"))
    found = Found(text)
    assert found.tags == ["html", "head", "meta", "meta", "title", "style", "body", "h1", "p"]
    assert found.attributes["content"] == CONTENT_SECURITY_POLICY
    assert (
        CONTENT_SECURITY_POLICY.startswith("default-src 'none'") and "script" not in CONTENT_SECURITY_POLICY
    )
    assert text.index("Content-Security-Policy") < text.index("<style>")
