import re

from pipeline.cli import verbs
from pipeline.cli.group import Group


def test_every_verb_has_a_name_of_its_own_and_one_sentence():
    groups = [verb for verb in verbs.VERBS if isinstance(verb, Group)]
    for found in (verbs.VERBS, *(group.verbs for group in groups)):
        names = [verb.name for verb in found]
        assert len(set(names)) == len(names)
        assert all(verb.summary.endswith(".") for verb in found)
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", verbs.version())
