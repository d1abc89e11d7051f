"""What is on an HTML page."""

import html.parser

VOID = {"meta", "img", "br", "wbr", "path", "use", "line", "rect"}


class Page(html.parser.HTMLParser):
    """Collects what a test asks of a page, and fails on tags that do not match."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.links, self.ids, self.text = [], [], [], ""
        self._open = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        found = dict(attrs)
        self.text += found.get("alt") or ""
        self.links += [found[k] for k in ("src", "href", "xlink:href", "action") if found.get(k)]
        self.ids += [found["id"]] if "id" in found else []
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self._open.pop() == tag

    def handle_data(self, data):
        if self._open[-1:] != ["style"]:
            self.text += data
