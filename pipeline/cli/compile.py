"""The verb that renders a workflow for Kubeflow Pipelines: compile."""

from __future__ import annotations

import argparse

from pipeline.cli.base import OVERRIDE_FILE, SET, SETTINGS, Result, Verb, argument


def compile_workflow(arguments: argparse.Namespace) -> Result:
    """Write the workflow as a Kubeflow Pipelines package."""
    from pipeline.kubeflow.kfp_backend import compile_pipeline
    from pipeline.settings.settings_file import load_settings

    # The files that the settings name are those of the cluster; the pipeline.config is read here.
    settings = load_settings(
        arguments.settings, arguments.overrides, override_files=arguments.override_files, check_files=False
    )
    compile_pipeline(settings, arguments.output)
    return Result(
        text=arguments.output, data={"pipeline": arguments.output, "image": settings.kubeflow.image}
    )


VERBS = (
    Verb(
        name="compile",
        summary="Write a workflow as a Kubeflow Pipelines package (YAML) that a cluster runs.",
        example="detflow compile examples/digits/settings.yaml -o build/digits/pipeline.yaml",
        arguments=(
            SETTINGS,
            SET,
            OVERRIDE_FILE,
            argument("-o", "--output", default="pipeline.yaml", help="file (default: pipeline.yaml)"),
        ),
        command=compile_workflow,
    ),
)
