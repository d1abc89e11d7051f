"""The verb `init`: write the files of a first workflow for a data set."""

import argparse
import dataclasses
import os
import shlex
from typing import Any

from component_specs.annotations import options_of
from detection_core.errors import ConfigError
from detection_core.storage import files
from pipeline.cli.base import Result, verb
from pipeline.console import native_output_to
from pipeline.tables import Page, Table


@verb("detflow init path/to/images -o build/mine")
def init(arguments: argparse.Namespace) -> Result:
    """Look at a data set and write the files of a first workflow for it."""
    if arguments.list_models:
        return _list(arguments)
    if not arguments.data:
        raise ConfigError(
            "expected the folder of a data set, a zip archive or a data.yaml, found none", where="init"
        )
    from pipeline.init.settings_choice import name_of_data, pipeline_name
    from pipeline.init.unpacked_data import unpacked

    data = arguments.data if files.is_remote(arguments.data) else os.path.abspath(arguments.data)
    folder = arguments.output or f"{pipeline_name(name_of_data(data))}-detector"
    with unpacked(data, folder) as found:
        return _write(found, folder, arguments)


def _write(data: str, folder: str, arguments: argparse.Namespace) -> Result:
    from pipeline.init.documents import GRID, check_documents, write_documents
    from pipeline.init.hardware import look_at_hardware
    from pipeline.init.plan import Request, make_plan
    from pipeline.init.summary import measured_text, summary_data, summary_rows
    from pipeline.init.written_files import write_unchanged

    request = options_of(Request, arguments, data=data, folder=folder, weights=not arguments.from_scratch)
    plan = make_plan(request, look_at_hardware())
    contents = write_documents(plan)
    check_documents(contents, data)
    write_unchanged(folder, contents)
    settings = os.path.join(folder, "settings.yaml")
    found = _measure(plan.config, len(plan.seen.classes)) if arguments.measure else None
    measured = [("measured", measured_text(found))] if found else []
    look = f"look at {shlex.quote(os.path.join(folder, GRID))}, then: " if GRID in contents else ""
    after = f"\n{look}{shlex.join(['detflow', 'run', settings])}"
    said = summary_data(plan) | ({"measured": dataclasses.asdict(found)} if found else {})
    return Result(
        text=Page((Table([*summary_rows(plan), *measured], header=False), after)),
        data={**said, "settings": settings, "files": sorted(contents)},
        exit_code=0 if len(plan.seen.unreadable) < plan.seen.opened else 1,
    )


def _measure(config: Any, classes: int) -> Any:
    from pipeline.init.hardware import measure

    with native_output_to(os.devnull):
        return measure(config, classes=classes)


def _list(arguments: argparse.Namespace) -> Result:
    """List the networks, or those of a speed tier; measure them with `--measure`."""
    from detection_core.zoo.networks import find_network, list_networks

    networks = [find_network(arguments.model)] if arguments.model else list(list_networks())
    networks = [n for n in networks if arguments.speed in (None, n.speed)]
    times = {}
    if arguments.measure:
        from detection_core.config.load import parse_pipeline_config

        configs = {n.name: parse_pipeline_config(n.text()) for n in networks}
        times = {name: round(_measure(config, 90).milliseconds, 1) for name, config in configs.items()}
    data = [
        {
            "name": n.name,
            "speed": n.speed,
            "finds": n.kind.finds,
            "input": n.side,
            "parameters": n.parameters,
            "multiply_adds": n.multiply_adds,
            "coco_map": n.coco_map,
            "milliseconds": times.get(n.name),
        }
        for n in networks
    ]
    rows = [
        ("model", "finds", "speed", "input", "parameters", "multiply-adds", "COCO mAP", "ms an image here")
    ]
    rows += [
        (
            n.name,
            n.kind.finds,
            n.speed,
            str(n.side),
            f"{n.parameters / 1e6:.1f} M",
            f"{n.multiply_adds / 1e9:.2f} G",
            f"{n.coco_map:.1f}" if n.coco_map else "-",
            f"{times[n.name]:.0f}" if n.name in times else "-",
        )
        for n in networks
    ]
    note = () if arguments.measure else ("\n--measure times them on this machine, --speed names a rung",)
    return Result(text=Page((Table(rows), *note)), data=data)


VERBS = (init,)
