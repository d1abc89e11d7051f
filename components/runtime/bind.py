"""Fill a Job from command-line arguments or TFX dictionaries; `kfp.call` fills it from Kubeflow's input."""

import argparse
import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from component_specs.annotations import Input, job_fields
from component_specs.codecs import Scalar
from detection_core.errors import ConfigError, ContractError

Job = TypeVar("Job")

# Marker file of an absent output, which readers treat as an absent input. Steps whose output cannot be
# omitted write it, such as BaselineResolver on the first run.
ABSENT = "ABSENT"


def _boolean(text: str) -> bool:
    if text.lower() in ("true", "1"):
        return True
    if text.lower() in ("false", "0"):
        return False
    raise argparse.ArgumentTypeError(f"expected true or false, found {text!r}")


def bind_arguments(job_type: type[Job], argv: Sequence[str]) -> Job:
    """Fill a Job from `--field value` arguments in a container.

    Values of artifacts are local paths.

    Raises:
        ConfigError: for an invalid parameter.
        ContractError: when an input's folder is missing.
        SystemExit: from argparse, with a usage text, for an unknown or missing argument.
    """
    fields = job_fields(job_type)
    parser = argparse.ArgumentParser(description=(job_type.__doc__ or "").split("\n")[0])
    for name, role in fields.inputs.items():
        parser.add_argument(f"--{name}", required=not role.optional, default="", metavar="DIR")
    for name in fields.outputs:
        parser.add_argument(f"--{name}", required=True, metavar="DIR")
    for name, parameter in fields.parameters.items():
        kind = parameter.codec.carried_as
        parser.add_argument(f"--{name}", type=_boolean if kind is bool else kind, required=parameter.required)
    given = vars(parser.parse_args(argv))
    return fill_job(job_type, given, given, given)


def bind_artifacts(
    job_type: type[Job],
    inputs: Mapping[str, Sequence[Any]],
    outputs: Mapping[str, Sequence[Any]],
    parameters: Mapping[str, Any],
) -> Job:
    """Fill a Job from the arguments of a TFX executor.

    Of several TFX artifacts the first is used. Unknown execution properties belong to TFX and are ignored.

    Raises:
        ConfigError: for an invalid parameter.
        ContractError: when an input's folder is missing.
    """
    taken, made = ({n: a[0].uri for n, a in given.items() if a} for given in (inputs, outputs))
    return fill_job(job_type, parameters, taken, made)


def fill_job(
    job_type: type[Job],
    parameters: Mapping[str, Scalar | None],
    inputs: Mapping[str, str],
    outputs: Mapping[str, str],
) -> Job:
    """Fill a Job from encoded parameters and the paths of its artifacts; errors as of `bind_artifacts`."""
    fields, values = job_fields(job_type), decode_parameters(job_type, parameters)
    paths = {name: present(name, role, inputs.get(name, "")) for name, role in fields.inputs.items()}
    paths |= {name: outputs[name] for name in fields.outputs}
    return job_type(**values, **paths)


def decode_parameters(job_type: type, carried: Mapping[str, Scalar | None]) -> dict[str, Any]:
    """Return the decoded parameters of a Job.

    Of the encoded values, None and unknown names are ignored.

    Raises:
        ConfigError: naming the parameter, the found value and the expected one.
    """
    values: dict[str, Any] = {}
    for name, parameter in job_fields(job_type).parameters.items():
        text = carried.get(name)
        if text is None:
            continue
        try:
            values[name] = parameter.codec.decode(text)
        except ValueError as e:
            raise ConfigError(str(e), where=name) from e
    return values


def present(name: str, role: Input, path: str) -> str:
    """Return the path of an input, or "" for an absent optional one.

    A path of "" means that no artifact was given.

    Raises:
        ContractError: when a required input is missing, or the path is not a folder.
    """
    if path and os.path.exists(os.path.join(path, ABSENT)):
        path = ""
    if not path and not role.optional:
        raise ContractError(f"the input {name} ({role.type.name}) is not there; run the step that makes it")
    if path and "://" not in path and not os.path.isdir(path):
        raise ContractError(
            f"the input {name} ({role.type.name}) should be a folder; run the step that makes it", where=path
        )
    return path
