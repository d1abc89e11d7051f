"""Writes the hyper-parameters into the page on google/automl: `python -m tests.docs.automl_page`."""

from pathlib import Path

from detection_core.config.automl.fates import FATES

PAGE = Path(__file__).parents[2] / "docs" / "coming-from-google-automl-efficientdet.md"
BEGIN, END = "<!-- hyper-parameters -->\n", "<!-- end of hyper-parameters -->\n"


def render(text: str) -> str:
    """Return the page with what becomes of each hyper-parameter, as a table in Markdown."""
    rows = [f"| `{name}` | {fate.kind} | {fate.text} |" for name, fate in FATES.items()]
    table = "\n".join(["| hyper-parameter | is | by which field, or why |", "|---|---|---|", *rows, ""])
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}{table}{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(render(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
