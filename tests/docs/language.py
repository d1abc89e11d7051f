"""Checks the language of docstrings, comments, messages, pages and commits: `python -m tests.docs.language`.

Prints each place with a word of `WORDS` and exits with 1 if there is one; `--long` also lists sentences of
more than `MOST_WORDS` words. `--message FILE` is the commit-msg hook, `--subjects BASE` the same afterwards.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ["detection_core", "components", "component_specs", "pipeline"]
PAGES = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "docs", "examples", "k8s", "docker"]
PLACES = [*PAGES, *PACKAGES, "benchmarks", ".ci", "tests"]
MOST_WORDS, SUBJECT_LENGTH = 22, 72
_OWN = ("language.py", "test_language.py")

# A word of the project's former dialect, and the plain word for it.
WORDS = {
    r"(?<!no\s)(?<![-/])\bsuch\b(?! as\b)": "this, these, so",
    r"\b(?:of|on) (?:its|their) own\b": "separate, own",
    r"\btold\b(?! apart\b)": "warned, known, given",
    r"\banew\b": "again",
    r"\bsuperfluous\b(?! values)": "excess, unused",  # a text of TFDV has it
    r"\bladders?\b": "speed tier",
    r"\bno telling\b": "ambiguous",
    r"\bof so many\b": "with N",
    r"\bsay(?:s)? so\b": "the fact itself",
    r"\bfates?\b": "status",
    r"\bthe likes? of\b": "similar",
    r"\bwhat[^.,;:]{1,60} is what\b": "the thing itself",
}
# Names in code of the same dialect.
NAMES = (
    r"\b(?:_SAID|_UNSAID|_with_said|Fates?|fates|could_not|superfluous|Overtaken|ladder)\b|\bScales(?=[].(,])"
)

# Sentences are broken into lines anywhere, also in comments.
_PATTERNS = {re.compile(word.replace(" ", r"[\s#]+"), re.IGNORECASE): plain for word, plain in WORDS.items()}
_ANY_WORD = re.compile("|".join(pattern.pattern for pattern in _PATTERNS), re.IGNORECASE)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n\s*\n|\n(?=\s*(?:[-*#|>]|\w+:\s))|`{3}")


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of the docstrings, comments and messages of a module, or of a page's paragraphs."""
    text = path.read_text(encoding="utf-8")
    if path.suffix not in (".py", ".pyi"):
        outside = re.sub(r"```.*?```|`[^`\n]*`", lambda m: "\n" * m[0].count("\n") + "`x`", text, flags=re.S)
        line = 1
        for part in re.split(r"(\n\s*\n)", outside):
            yield line, part
            line += part.count("\n")
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value.split()) > 1:
            yield node.lineno, node.value
    comments: list[tuple[int, str]] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            words = token.string.lstrip("# ")
            if comments and comments[-1][0] + comments[-1][1].count("\n") + 1 == token.start[0]:
                comments[-1] = (comments[-1][0], f"{comments[-1][1]}\n{words}")
            else:
                comments.append((token.start[0], words))
    yield from comments


def words_in(path: Path) -> list[str]:
    """Return a line for each place of a file that has a word of `WORDS`, or a name of `NAMES`."""
    found: list[str] = []
    source = path.read_text(encoding="utf-8")
    # Parsing every file takes ten times as long as this search, which finds no word in most of them.
    if not (_ANY_WORD.search(source) or re.search(NAMES, source)):
        return found
    for line, text in prose(path):
        for pattern, instead in _PATTERNS.items():
            for match in pattern.finditer(text):
                at = line + text.count("\n", 0, match.start())
                found.append(f"{_name(path)}:{at}: {match[0]!r}; write: {instead}")
    if path.suffix == ".py":
        for number, row in enumerate(source.splitlines(), 1):
            found += [f"{_name(path)}:{number}: the name {name}" for name in re.findall(NAMES, row)]
    return found


def long_sentences(path: Path) -> list[str]:
    """Return a line for each sentence of a file with more than `MOST_WORDS` words."""
    found = []
    for line, text in prose(path):
        if path.suffix == ".py" and not re.search(r"[a-z] [a-z]+ [a-z]+", text):
            continue
        for sentence in _SENTENCE.split(text):
            count = len(sentence.split())
            if count > MOST_WORDS and "|" not in sentence:
                found.append(f"{_name(path)}:{line}: {count} words: {' '.join(sentence.split())[:100]}")
    return found


def long_subjects(base: str) -> list[str]:
    """Return the subjects of the commits after `base` that are longer than `SUBJECT_LENGTH`."""
    log = ["git", "log", "--format=%h %s", f"{base}..HEAD"]
    lines = subprocess.run(log, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    return [line for line in lines if len(line.split(" ", 1)[1]) > SUBJECT_LENGTH]


def message_faults(message: str) -> list[str]:
    """Return what is wrong with a commit's message: a subject too long, or no body that says why."""
    subject, _, body = message.strip().partition("\n")
    faults = []
    if len(subject) > SUBJECT_LENGTH:
        faults.append(
            f"expected a subject of at most {SUBJECT_LENGTH} characters, found {len(subject)}: {subject}"
        )
    if not any(line and not line.startswith("#") for line in body.splitlines()) and "Merge" not in subject:
        faults.append("expected a body that says why, found none")
    return faults


def files(places: list[str]) -> Iterator[Path]:
    """Yield the modules and pages below the places, without generated ones and this one."""
    for place in places:
        path = ROOT / place
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.suffix in (".py", ".md") and "_pb2" not in file.name and file.name not in _OWN:
                yield file


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name


def main(arguments: list[str] | None = None) -> int:
    """Run the command; 1 when a word or a subject is to be changed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="*", default=PLACES)
    parser.add_argument("--long", action="store_true", help="list long sentences, too")
    parser.add_argument("--subjects", metavar="BASE", help="check the subjects of the commits after BASE")
    parser.add_argument("--message", metavar="FILE", type=Path, help="check a commit's message, as a hook")
    options = parser.parse_args(arguments)
    if options.message:
        faults = message_faults(options.message.read_text(encoding="utf-8"))
        print(*faults, sep="\n", file=sys.stderr)
        return 1 if faults else 0
    faults = [line for path in files(options.paths) for line in words_in(path)]
    if options.subjects:
        faults += long_subjects(options.subjects)
    print(*faults, sep="\n")
    if options.long:
        print(*(line for path in files(options.paths) for line in long_sentences(path)), sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
