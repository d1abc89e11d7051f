"""Verbs about data sets."""

from __future__ import annotations

from pipeline.cli.data_convert import CONVERT
from pipeline.cli.data_preview import PREVIEW
from pipeline.cli.data_report import REPORT
from pipeline.cli.group import Group

GROUP = Group(name="data", summary="Look at data sets and convert them.", verbs=(REPORT, PREVIEW, CONVERT))
