"""Configs and single messages that were changed at random: each is built, or refused as the check refuses it.

FUZZ_SECONDS=180 python -m pytest -m faults tests/faults/test_configs.py
"""

import os
import time

import pytest
from hypothesis import HealthCheck, given, settings

from detection_core.config.load import load_pipeline_config
from tests.support.agreement import BUILDERS, assert_agree, assert_parts_agree, messages_to_build
from tests.support.configs import LAYERS, PYRAMID, RETINA
from tests.support.mutations import mutated_configs
from tests.support.zoo_configs import ZOO, zoo_config

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1200)]

_SECONDS = float(os.environ.get("FUZZ_SECONDS", "180"))
_SEEDS = [*map(load_pipeline_config, (PYRAMID, LAYERS, RETINA)), *map(zoo_config, ZOO)]
_RANDOM = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck), database=None)


def test_every_part_of_a_changed_config_that_passes_is_built():
    counts = {True: 0, False: 0}

    @given(mutated_configs(_SEEDS, changes=4))
    @_RANDOM
    def check(config):
        counts[assert_parts_agree(config)] += 1

    _repeat(check, _SECONDS)
    print(f"{counts[True]:,} configs built, {counts[False]:,} refused")
    assert counts[True] and counts[False]


@pytest.mark.parametrize("kind", BUILDERS, ids=lambda kind: kind.DESCRIPTOR.name)
def test_a_message_is_built_or_refused_as_the_check_refuses_it(kind):
    @given(messages_to_build(kind))
    @_RANDOM
    def check(message):
        assert_agree(message)

    _repeat(check, _SECONDS / len(BUILDERS))


def _repeat(check, seconds):
    """Run a property with new examples until the time is over, at least once."""
    end = time.monotonic() + seconds
    check()
    while time.monotonic() < end:
        check()
