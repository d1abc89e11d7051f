"""The verb that writes a page about a data set."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping

from pipeline.cli.base import Result, Verb, argument
from pipeline.cli.data_source import examples_of, source_arguments
from pipeline.cli.output_folder import output_folder
from pipeline.console import native_output_to


def report(arguments: argparse.Namespace) -> Result:
    """Write a page about a data set."""
    from detection_core.config.load import load_checked_config

    config = load_checked_config(arguments.config) if arguments.config else None
    with (
        output_folder(arguments.output, keep_unfinished=False) as output,
        native_output_to(os.path.join(output, "native.log")),
        examples_of(arguments.data, arguments, output) as examples,
    ):
        from detection_core.artifacts.data_findings import FINDINGS
        from detection_core.artifacts.dataset_card import CARD
        from detection_core.report.data_page import PAGE
        from detection_core.storage import files
        from detection_core.tasks.report_data import report_examples

        made = report_examples(
            examples, output, title=arguments.data.rstrip("/") or arguments.data, config=config
        )
    page = files.join(arguments.output, PAGE)
    total = made.card.total
    lines = [f"{total.images:,} images, {total.objects:,} objects, {len(made.card.classes):,} classes"]
    if made.card.quarantine.records:
        lines.append(f"{made.card.quarantine.records:,} put aside: {_counted(made.card.quarantine.reasons)}")
    lines += [f"{finding.severity}: {finding.message}" for finding in made.findings.findings]
    data = {"page": page, "card": CARD.encode(made.card), "findings": FINDINGS.encode(made.findings)}
    return Result(text="\n".join([*lines, f"page: {page}"]), data=data)


def _counted(reasons: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {reason.replace('_', ' ')}" for reason, count in reasons.items())


REPORT = Verb(
    name="report",
    summary="Write a page about a data set: charts, samples, and what is wrong with it.",
    example="detflow data report photos -o build/report",
    arguments=(
        argument("data", metavar="DATA", help="folder of a data set, or of examples of ExampleGen"),
        argument("-o", "--output", required=True, metavar="DIR", help="folder to write; it may exist"),
        argument("--config", default="", metavar="FILE", help="pipeline.config to hold boxes against"),
        source_arguments,
    ),
    command=report,
)
