"""What a server and its user interface want of each compiled component, which kfp's compiler writes."""

ARGUMENT_BYTES = 128 * 1024  # the longest argument of a program on Linux
_KINDS = {"container", "importer"}


def find_faults(spec):
    """Return one text for each violated rule."""
    return [fault for rule in RULES for fault in rule(spec)]


def _sides(spec):
    """Yield component, and its inputs or outputs."""
    for component, body in {"root": spec["root"], **spec["components"]}.items():
        for side in ("inputDefinitions", "outputDefinitions"):
            yield component, body.get(side, {})


def _component_names(spec):
    for name in spec["components"]:
        if not name.startswith("comp-"):
            yield f"the component {name!r} does not begin with comp-, which the local runner cuts off"


def _parameter_types(spec):
    for component, side in _sides(spec):
        for name, parameter in side.get("parameters", {}).items():
            if not parameter.get("parameterType"):
                yield f"parameter {name} of {component} has no parameterType"


def _artifact_types(spec):
    for component, side in _sides(spec):
        for name, artifact in side.get("artifacts", {}).items():
            title = artifact.get("artifactType", {}).get("schemaTitle", "")
            if not title.startswith("system."):
                yield f"artifact {name} of {component} has the type {title!r} and not one of system.*"


def _executors(spec):
    return spec["deploymentSpec"]["executors"].items()


def _executor_kinds(spec):
    for name, executor in _executors(spec):
        for kind in executor.keys() - _KINDS:
            yield f"{name} is of the kind {kind}; a server runs {' and '.join(sorted(_KINDS))} only"


def _containers(spec):
    for name, executor in _executors(spec):
        container = executor.get("container")
        if container is None:
            continue
        if not container.get("command"):
            yield f"{name} has no command; an image's own entry point is never run"
        if not container.get("image"):
            yield f"{name} has no image"
        if "lifecycle" in container:
            yield f"{name} has a lifecycle hook, which a server ignores"


def _arguments(spec):
    for name, executor in _executors(spec):
        for argument in executor.get("container", {}).get("args", ()):
            if argument.startswith('{"IfPresent":'):
                yield f"an argument of {name} begins with IfPresent, which the driver interprets"
            if "{{" in argument.replace("{{$", ""):
                yield f"an argument of {name} holds {{{{, which begins a placeholder"
            if len(argument.encode()) > ARGUMENT_BYTES:
                yield f"an argument of {name} is longer than {ARGUMENT_BYTES} bytes"


RULES = (_component_names, _parameter_types, _artifact_types, _executor_kinds, _containers, _arguments)
