"""The page lists every check as it is made."""

import re
from pathlib import Path

from detection_core.validation.checks import CHECKS

PAGE = Path(__file__).parents[2] / "docs" / "data-validation.md"


def test_the_page_lists_the_checks_with_their_thresholds():
    table = PAGE.read_text(encoding="utf-8").split("## The checks")[1].split("## Drift")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| ([\d.]+) \|$", table, re.MULTILINE)
    assert [(name, measures, float(threshold)) for name, measures, threshold in rows] == [
        (name, check.measures, check.threshold) for name, check in CHECKS.items()
    ]
