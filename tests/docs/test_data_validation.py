import re
from pathlib import Path

from detection_core.validation.checks import CHECKS


def test_the_page_lists_the_checks_with_their_thresholds():
    page = (Path(__file__).parents[2] / "docs" / "data-validation.md").read_text(encoding="utf-8")
    table = page.split("## The checks")[1].split("## Drift")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| ([\d.]+) \|$", table, re.MULTILINE)
    found = [(name, measures, float(threshold)) for name, measures, threshold in rows]
    assert found == [(name, check.measures, check.threshold) for name, check in CHECKS.items()]
