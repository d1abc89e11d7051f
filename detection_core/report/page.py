"""Self-contained HTML pages from templates, without scripts and external links."""

from __future__ import annotations

import os
from typing import Any

from detection_core.artifacts.benchmark import Benchmark
from detection_core.redaction import visible
from detection_core.report import formats

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)
"""No scripts, fonts, frames or requests; only embedded pictures and styles."""

TEMPLATES = os.path.join(os.path.dirname(__file__), "templates")
_FILTERS = ("duration", "metric", "signed", "size", "thousands", "moment")


def shown(value: Any) -> str:
    """Return a value as text, with control characters made visible."""
    return visible(str(value))


def render(template: str, context: dict[str, Any], *, folders: tuple[str, ...] = ()) -> str:
    """Render a page; every value of the context is escaped, and templates mark none as safe.

    Templates are searched in `folders` first, then in this package.

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
    """Make text visible before it is escaped; markup from a template's macros is unchanged."""
    return shown(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


BENCHMARK_PAGE = "index.html"


def benchmark_page(benchmark: Benchmark) -> str:
    """Return the page of a benchmark."""
    kinds = dict.fromkeys(kind.name for file in benchmark.files for kind in file.operators)
    by_name = [{kind.name: kind for kind in file.operators} for file in benchmark.files]
    return render("benchmark_page.html", {"b": benchmark, "kinds": list(kinds), "by_name": by_name})
