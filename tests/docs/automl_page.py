"""Writes the hyper-parameters into the page on google/automl: `python -m tests.docs.automl_page`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from detection_core.config.automl.fates import FATES

PAGE = Path(__file__).parents[2] / "docs" / "coming-from-google-automl-efficientdet.md"
BEGIN, END = "<!-- hyper-parameters -->\n", "<!-- end of hyper-parameters -->\n"


def table() -> str:
    """Return what becomes of each hyper-parameter, as a table in Markdown."""
    rows = [f"| `{name}` | {fate.kind} | {fate.text} |" for name, fate in FATES.items()]
    return "\n".join(["| hyper-parameter | is | by which field, or why |", "|---|---|---|", *rows, ""])


def render(text: str) -> str:
    """Return the page with the table as it should be."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}{table()}{END}{rest.partition(END)[2]}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the result is the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; fail where it would change")
    text = PAGE.read_text(encoding="utf-8")
    if parser.parse_args(arguments).check:
        return int(render(text) != text)
    PAGE.write_text(render(text), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
