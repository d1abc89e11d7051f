"""Writes the pages of docs/reference: `python -m tests.docs.reference [--check]`.

api.md: the public names, their signatures and their docstrings, which griffe reads. tables.py has the others.
`--check` writes nothing and fails where a page is not what the source gives.
"""

import argparse
import re
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import griffe

import detection_core
import detflow.config
import detflow.model_spec
import detflow.object_detector
from tests.docs import tables

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "api.md"
COMMAND = "python -m tests.docs.reference"
_PAGE = Path(__file__).with_name("data") / "api_page.md"
MODULES = (detflow.object_detector, detflow.model_spec, detflow.config)
_CONFIG = """The Object Detection API's message of a whole configuration; its fields are those of \
`detection_core/protos/pipeline.proto`."""
MESSAGES = {"TrainEvalPipelineConfig": _CONFIG}
"""Generated classes, which have no docstrings."""
_DATA = griffe.DocstringSectionKind
_FIELD_DEFAULT = re.compile(r"field\(.*?\bdefault=([^,)]+)")


def render() -> str:
    """Return the part about the library."""
    package = griffe.load("detection_core", search_paths=[str(ROOT)], docstring_parser="google")
    members, lines = [_target(package.members[name]) for name in detection_core.__all__], []
    for title, kind in (("Functions", griffe.Function), ("Classes", griffe.Class)):
        lines += [f"## {title}", ""]
        for member in members:
            if isinstance(member, kind) and not _is_error(member):
                lines += _member(member)
    lines += ["## Errors", "", "| error | means |", "|---|---|"]
    lines += [f"| `{m.name}` | {_first(m)} |" for m in members if _is_error(m)]
    return "\n".join(lines).rstrip()


def render_model_maker() -> str:
    """Return the part about Model Maker's names."""
    package = griffe.load("detflow", search_paths=[str(ROOT / "pipeline" / "api")], docstring_parser="google")
    griffe.load("detection_core", search_paths=[str(ROOT)], docstring_parser="google")
    lines = []
    for module in MODULES:
        lines += [f"### `{module.__name__}`", ""]
        found = package[module.__name__.removeprefix("detflow.")]
        for name in module.__all__:
            lines += _named(found.members[name])
    return "\n".join(lines).rstrip()


def _named(member: Any) -> Iterator[str]:
    """Yield a function, a class with its constructor, or a value with what its docstring says."""
    member = _target(member)
    if isinstance(member, griffe.Attribute):
        text = _first(member) if member.docstring else MADE_OF.get(member.name, "")
        yield from (f"#### `{member.name}`", "", text, "")
        return
    heading, empty, *rest = _member(member)
    yield from (f"#{heading}", empty)
    constructor = member.members.get("__init__") if isinstance(member, griffe.Class) else None
    if constructor is not None:
        (code, *lines) = _signature(constructor)
        yield from ("```python", code.replace("__init__", member.name, 1), *lines, "```", "")
    yield from rest


_MAKES = "Makes an `EfficientDetSpec` of `efficientdet-lite{}`; takes its arguments by their names."
MADE_OF = {f"EfficientDetLite{number}Spec": _MAKES.format(number) for number in range(5)}
"""Values that have no docstring."""


def pages() -> dict[Path, str]:
    """Return each page and what it holds."""
    folder = PAGE.parent
    parts = {"library": render(), "model_maker": render_model_maker()}
    parts |= {"example": example_code(detection_core.__doc__), "names": example_code(detflow.__doc__)}
    return {
        PAGE: _PAGE.read_text("utf-8").format(command=COMMAND, **parts),
        folder / "commands.md": tables.render_commands(),
        folder / "models.md": tables.render_models(),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the result is the exit status."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; fail if a page would change")
    options = parser.parse_args(arguments)
    stale = 0
    for page, text in pages().items():
        if not options.check:
            page.write_text(text, encoding="utf-8")
            sys.stdout.write(f"{page.relative_to(ROOT)} written\n")
        elif not page.is_file() or page.read_text(encoding="utf-8") != text:
            sys.stderr.write(f"{page.relative_to(ROOT)} is not what the source gives; run: {COMMAND}\n")
            stale = 1
    return stale


def _target(member: Any) -> Any:
    return member.final_target if member.is_alias else member


def _is_error(member: Any) -> bool:
    return isinstance(member, griffe.Class) and member.name.endswith("Error")


def _first(member: Any) -> str:
    text = member.docstring.value if member.docstring else ""
    return " ".join(text.split("\n\n")[0].split())


def example_code(docstring: str) -> str:
    """Return the indented block of the package's docstring."""
    lines = docstring.splitlines()
    code = [i for i, line in enumerate(lines) if line.startswith("    ")]
    return textwrap.dedent("\n".join(lines[code[0] : code[-1] + 1]))


def _member(member: Any, level: int = 3) -> Iterator[str]:
    name = member.name if level == 3 else f"{member.parent.name}.{member.name}"
    yield from (f"{'#' * level} `{name}`", "")
    if isinstance(member, griffe.Function):
        yield from ("```python", *_signature(member), "```", "")
    if member.name in MESSAGES:
        yield from (MESSAGES[member.name], "")
        return
    yield from _docstring(member)
    if isinstance(member, griffe.Class):
        for method in member.members.values():
            if isinstance(method, griffe.Function) and not method.name.startswith("_"):
                yield from _member(method, level + 1)


def _signature(function: griffe.Function) -> Iterator[str]:
    """One line where it fits a page, else a line a parameter."""
    parts = list(_parameters(function))
    returns = f" -> {function.returns}" if function.returns is not None else ""
    line = f"{function.name}({', '.join(parts)}){returns}"
    if len(line) <= 100:
        yield line
        return
    yield f"{function.name}("
    yield from (f"    {part}," for part in parts)
    yield f"){returns}"


def _parameters(function: griffe.Function) -> Iterator[str]:
    starred = False
    for parameter in function.parameters:
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind is griffe.ParameterKind.keyword_only and not starred:
            yield "*"
            starred = True
        annotation = f": {parameter.annotation}" if parameter.annotation is not None else ""
        default = f" = {parameter.default}" if parameter.default is not None else ""
        yield f"{parameter.name}{annotation}{default}"


def _docstring(member: Any) -> Iterator[str]:
    for section in member.docstring.parsed if member.docstring else ():
        if section.kind is _DATA.text:
            yield from (section.value, "")
        elif section.kind is _DATA.parameters:
            yield from ("| argument | is |", "|---|---|")
            yield from (f"| `{entry.name}` | {_cell(entry.description)} |" for entry in section.value)
            yield ""
        elif section.kind is _DATA.attributes:
            yield from ("| attribute | type | is |", "|---|---|---|")
            for entry in section.value:
                declared = _declared(member, entry.name)
                yield f"| `{entry.name}` | {_code(declared)} | {_cell(entry.description)} |"
            yield ""
        elif section.kind in (_DATA.returns, _DATA.yields):
            yield from (*(f"Returns: {_cell(entry.description)}" for entry in section.value), "")
        elif section.kind is _DATA.raises:
            yield from ("| raises | |", "|---|---|")
            yield from (f"| `{entry.annotation}` | {_cell(entry.description)} |" for entry in section.value)
            yield ""
        else:
            raise ValueError(f"{member.path}: no way to show a section of kind {section.kind}")


def _declared(member: Any, name: str) -> str:
    """Return an attribute's type, and its default where it has a literal one."""
    attribute = member.all_members.get(name)
    if attribute is None or attribute.annotation is None:
        return ""
    value = str(attribute.value or "")
    if "field(" in value:
        value = "".join(_FIELD_DEFAULT.findall(value))
    return f"{attribute.annotation}{f' = {value}' if value else ''}"


def _code(text: str) -> str:
    return f"`{_cell(text)}`" if text else ""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")


if __name__ == "__main__":
    sys.exit(main())
