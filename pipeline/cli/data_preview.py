"""The verb that draws what training is fed."""

from __future__ import annotations

import argparse
import os

from detection_core.errors import ConfigError
from pipeline.cli.base import OVERRIDE_FILE, SET, Result, Verb, argument, config_overrides
from pipeline.cli.data_source import examples_of, source_arguments
from pipeline.cli.output_folder import output_folder
from pipeline.console import native_output_to


def preview(arguments: argparse.Namespace) -> Result:
    """Draw what training is fed."""
    from detection_core.config.load import load_checked_config

    if arguments.examples and arguments.data:
        raise ConfigError("expected one of --examples and --data, found both; leave one out")
    config = load_checked_config(
        arguments.config,
        config_overrides(arguments.overrides),
        override_files=arguments.override_files,
    )
    source = arguments.examples or arguments.data
    with (
        output_folder(arguments.output, keep_unfinished=False) as output,
        native_output_to(os.path.join(output, "native.log")),
        examples_of(source, arguments, output) as examples,
    ):
        from detection_core.config.input_paths import point_at_examples
        from detection_core.storage import files
        from detection_core.tasks.preview import PAGE, SHEET, preview_training_input

        made = preview_training_input(
            point_at_examples(config, examples) if examples else config,
            output,
            seed=arguments.seed,
            count=arguments.count,
            title=arguments.config,
        )
    page, sheet = (files.join(arguments.output, name) for name in (PAGE, SHEET))
    steps = ", ".join(text.partition(" ")[0] for text in made.augmentations) or "none"
    lines = [f"seed {made.seed}, {len(made.source_ids)} images", f"augmentations: {steps}"]
    data = {
        "page": page,
        "sheet": sheet,
        "seed": made.seed,
        "source_ids": list(made.source_ids),
        "augmentations": list(made.augmentations),
    }
    return Result(text="\n".join([*lines, f"sheet: {sheet}", f"page: {page}"]), data=data)


PREVIEW = Verb(
    name="preview",
    summary="Draw what augmentation really feeds the network: images before and after.",
    example="detflow data preview pipeline.config --data photos -o build/preview",
    arguments=(
        argument("config", metavar="CONFIG", help="pipeline.config"),
        argument("--data", default="", metavar="DIR", help="data set (default: the config's own records)"),
        argument("--examples", default="", metavar="DIR", help="what ExampleGen wrote, in place of --data"),
        source_arguments,
        argument("--seed", type=int, help="of order and augmentation (default: train_config.seed)"),
        argument("-n", "--count", type=int, default=12, metavar="N", help="images (default: 12)"),
        argument("-o", "--output", required=True, metavar="DIR", help="folder to write; it may exist"),
        SET,
        OVERRIDE_FILE,
    ),
    command=preview,
)
