import re
from pathlib import Path

from tests.support.cases import cases

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_CODE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


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


def test_every_page_is_linked_from_the_readme():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    pages = [page.name for page in (ROOT / "docs").glob("*.md")]
    assert pages and [name for name in pages if f"(docs/{name})" not in readme] == []
