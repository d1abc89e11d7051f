"""HTML pages from the templates beside this module: one file each, without scripts and links elsewhere."""

from __future__ import annotations

import os
from typing import Any

from detection_core.redaction import visible
from detection_core.report import formats

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)
"""No script, no font, no frame, no request; pictures and styles that are in the page itself."""

TEMPLATES = os.path.join(os.path.dirname(__file__), "templates")
_FILTERS = ("duration", "metric", "signed", "size", "thousands", "moment")


def shown(value: Any) -> str:
    """Return a value as text in which nothing is invisible: control characters are written out."""
    return visible(str(value))


def render(template: str, context: dict[str, Any], *, folders: tuple[str, ...] = ()) -> str:
    """Return a page.

    Every value of the context is escaped; a template marks nothing of it as safe.

    Args:
        template: name of a template.
        context: what it shows.
        folders: further folders that templates are looked for in, before those of this package.

    Raises:
        ValueError: when the context does not fit the template.
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([*folders, TEMPLATES]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.ChainableUndefined,
        finalize=_visible_text,
    )
    environment.filters |= {name: getattr(formats, name) for name in _FILTERS}
    environment.globals |= {"policy": CONTENT_SECURITY_POLICY, "zip": zip}
    try:
        return str(environment.get_template(template).render(context))
    except jinja2.TemplateError as error:
        raise ValueError(str(error)) from error


def _visible_text(value: Any) -> Any:
    """Return what a text becomes before it is escaped; markup of a template's own macros stays as it is."""
    return shown(value) if isinstance(value, str) and not hasattr(value, "__html__") else value
