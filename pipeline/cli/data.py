"""Verbs about data sets."""

from __future__ import annotations

from pipeline.cli.data_convert import CONVERT
from pipeline.cli.group import Group

GROUP = Group(name="data", summary="Look at data sets and convert them.", verbs=(CONVERT,))
