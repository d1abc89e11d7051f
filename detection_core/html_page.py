"""What every HTML page of ours has in common: how a text becomes part of it, and what it may load.

Names of files, classes, metrics and settings come from whoever made the data, and a page is opened far from
where it was written. So there is one way for a text into a page, the one below, and a policy that lets no
browser run or load anything even if there were another.
"""

from __future__ import annotations

import html
from typing import Any

from detection_core.redaction import visible

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)
"""No script, no font, no frame, no request; pictures and styles that are in the page itself."""


class Markup(str):
    """Text of which every part has been escaped, or was written here."""

    __slots__ = ()

    def __html__(self) -> str:
        """Return it as it is, which is what jinja2 asks for."""
        return self


def escape(value: Any) -> Markup:
    """Return a value as part of a page: what is markup as it is, all else as text that can be seen."""
    if isinstance(value, Markup):
        return value
    return Markup(html.escape(shown(value)))


def shown(value: Any) -> str:
    """Return a value as text in which nothing is invisible: control characters are written out."""
    return visible(str(value))


def fill(template: str, *values: Any, **named: Any) -> Markup:
    """Fill a template of ours, as `str.format`, with values of others, each escaped."""
    return Markup(
        template.format(*map(escape, values), **{name: escape(value) for name, value in named.items()})
    )


def join(parts: Any) -> Markup:
    """Return parts of a page one after the other."""
    return Markup("".join(map(escape, parts)))


def page(title: str, style: str, *parts: Any) -> Markup:
    """Return a whole page.

    Args:
        title: of window and page.
        style: style sheet, written here.
        parts: of the body, under the title.
    """
    return fill(
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta http-equiv="Content-Security-Policy" content="{policy}"><title>{title}</title>'
        "<style>{style}</style></head><body><h1>{title}</h1>{body}</body></html>\n",
        policy=CONTENT_SECURITY_POLICY,
        title=title,
        style=Markup(style),
        body=join(parts),
    )
