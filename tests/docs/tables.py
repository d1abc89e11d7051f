"""Renders docs/reference/commands.md and models.md; `python -m tests.docs.reference` writes them."""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from detection_core.artifacts.evaluation import (
    CATEGORY_PREFIX,
    COCO_METRICS,
    GROUP_PREFIX,
    LVIS_SET,
    SHAPE_METRICS,
    TIDE_METRICS,
    metric_prefix,
)
from detection_core.config.automl.hyperparameters import SUPPORT
from detection_core.config.metric_names import COCO_SET, SET_PREFIXES
from detection_core.zoo.networks import Network, PublishedModel, list_networks
from pipeline.cli.base import Argument, Group, Verb
from pipeline.cli.parser import VERBS
from tests.support.zoo_configs import config_rows

GENERATED = "Generated from the source by `python -m tests.docs.reference`; change {}, not this page."
COMMANDS_HEAD = f"""# Commands

{GENERATED.format("`pipeline/cli`")}

Every command also takes `--help` and `--json`, which prints the result for scripts. Exit codes are on
the [first page](../index.md#run-resume-look); `--wait` has [more](../kubeflow.md#submit).
"""
DATA = Path(__file__).with_name("data")
MEASURES = yaml.safe_load((DATA / "metric_sets.yaml").read_text("utf-8"))


def render_commands() -> str:
    """Return the page of all commands with their arguments."""
    lines = [COMMANDS_HEAD, "| command | does |", "|---|---|"]
    verbs = list(_verbs())
    for name, verb in verbs:
        lines.append(f"| [`detflow {name}`](#detflow-{name.replace(' ', '-')}) | {_cell(verb.summary)} |")
    for name, verb in verbs:
        lines += ["", f"## detflow {name}", "", verb.summary, "", "```sh", verb.example, "```", ""]
        rows = [_row(argument) for argument in verb.all_arguments()]
        lines += (
            ["| argument | meaning |", "|---|---|", *rows] if rows else ["It has only the common arguments."]
        )
    return "\n".join(lines) + "\n"


def render_models() -> str:
    """Return the page of networks, metrics and hyper-parameters."""
    shapes = {name: metric_prefix(metrics[0]) for name, metrics in (SHAPE_METRICS | TIDE_METRICS).items()}
    prefixes = {COCO_SET: "DetectionBoxes", **shapes, LVIS_SET: "DetectionMasks", **SET_PREFIXES}
    rows = {
        "networks": map(_network, list_networks()),
        "configs": (
            f"| `{name}` | {' | '.join(rest)} | {_cell(reason)} |" for name, *rest, reason in config_rows()
        ),
        "metrics": (f"| `{name}` |" for name in COCO_METRICS),
        "sets": (f"| `{name}` | `{prefix}_` | {MEASURES[name]} |" for name, prefix in prefixes.items()),
        "support": (f"| `{name}` | {support.kind} | {support.text} |" for name, support in SUPPORT.items()),
    }
    texts = {"generated": GENERATED.format("the tables in the code"), "category": CATEGORY_PREFIX}
    tables = {name: "\n".join(lines) for name, lines in rows.items()}
    return (DATA / "models_page.md").read_text("utf-8").format(**texts, group=GROUP_PREFIX, **tables)


def _verbs() -> Iterator[tuple[str, Verb]]:
    for entry in VERBS:
        if isinstance(entry, Group):
            yield from ((f"{entry.name} {verb.name}", verb) for verb in entry.verbs)
        else:
            yield entry.name, entry


def _row(argument: Argument) -> str:
    parser = argparse.ArgumentParser(prog="detflow", add_help=False)
    action = parser.add_argument(*argument.flags, **argument.options)
    formatter = parser._get_formatter()
    call = formatter._format_action_invocation(action)
    meaning = formatter._expand_help(action) if action.help else ""
    return f"| `{_cell(call)}` | {_cell(_marked(meaning))} |"


def _marked(text: str) -> str:
    """Keep what Markdown would take for markup: text in angle brackets, stars and underscores."""
    parts = text.split("`")
    return "`".join(part if n % 2 else re.sub(r"([<*_\[\]])", r"\\\1", part) for n, part in enumerate(parts))


def _network(network: Network) -> str:
    adds = f"{network.multiply_adds / 1e9:.2f}" if network.multiply_adds else ""
    coco_map = f"{network.coco_map:g}" if network.coco_map is not None else ""
    if isinstance(network, PublishedModel) and network.shape_map:
        coco_map = f"{coco_map or '-'} / {network.shape_map:g}"
    weights = "zoo" if isinstance(network, PublishedModel) else ""
    return (
        f"| `{network.name}` | {network.kind.finds} | {network.speed} | {network.side} |"
        f" {network.parameters / 1e6:.2f} | {adds} | {coco_map} | {weights} |"
    )


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")
