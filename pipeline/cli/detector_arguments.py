"""Shared arguments of verbs on detectors."""

from __future__ import annotations

import argparse

from pipeline.cli.base import Argument, argument, option

EXAMPLES = argument("--examples", required=True, metavar="DIR", help="examples of ExampleGen")
EXAMPLES_OR_CONFIG = option(
    "--examples", "DIR", "examples of ExampleGen (default: those of the config's train_input_reader)"
)
OUTPUT = argument("--output", required=True, metavar="DIR", help="folder to write; it may exist")
TRUST = argument(
    "--trust",
    action="store_true",
    help="run a model whose graph may read or write files or run code; only for models that you trust",
)


def representative_examples(purpose: str, default: int = 100) -> Argument:
    """Return the argument for the calibration images.

    The help begins with their `purpose`.
    """
    return argument(
        "--representative-examples",
        type=int,
        default=default,
        metavar="N",
        help=f"{purpose} (default: {default})",
    )


def given_model(path: str) -> str:
    """Return the model at a path of the command line; "" stays "".

    Raises:
        ContractError: as in `detection_core.artifacts.detector.find_model`.
    """
    from detection_core.artifacts.detector import find_model

    return find_model(path)


def one_model(arguments: argparse.Namespace) -> str:
    """Return the detector that `--model` names; several become an ensemble in the output folder.

    Raises:
        DetectionError: as in `given_model`, or when the detectors cannot be fused.
    """
    models = [given_model(path) for path in arguments.model]
    if len(models) == 1:
        return models[0]
    from detection_core.capabilities import capability
    from detection_core.storage import files

    folder = files.join(arguments.output, "ensemble")
    capability("detection_core.optional.ensembles").write_ensemble(folder, models)
    return folder
