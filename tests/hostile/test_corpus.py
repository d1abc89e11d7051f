"""Cases have names of their own and call entry points only."""

import collections
import importlib.util

from tests.hostile.corpus import all_cases


def test_every_case_calls_the_command_line_or_a_step():
    cases = list(all_cases())
    kinds = collections.Counter(case.kind for case in cases)
    modules = {case.command[0] for case in cases}
    assert len(kinds) > 25 and kinds.total() > 1_500
    for module in modules:
        assert module == "pipeline.cli" or module.startswith("components.")
        assert importlib.util.find_spec(f"{module}.__main__"), module
