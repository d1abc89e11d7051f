"""Configs, messages and SavedModels changed at random: built and run, or refused as the check refuses them.

FUZZ_SECONDS=180 python -m pytest -m faults tests/faults/test_configs.py
"""

import os
import random
import shutil
import time

import pytest
from hypothesis import HealthCheck, given, settings

from detection_core.artifacts.graph_operations import check_graph
from detection_core.config.load import load_pipeline_config
from detection_core.errors import ModelError
from tests.support import graph_mutants
from tests.support.agreement import BUILDERS, assert_agree, assert_parts_agree, messages_to_build
from tests.support.configs import LAYERS, PYRAMID, RETINA
from tests.support.random_messages import mutated_configs
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


_SEED = int(os.environ.get("FUZZ_SEED", "1"))


def altered(bases, folder, seed):
    """Write a mutant; return it, what was done to it, and where its payload would write."""
    shutil.rmtree(folder, ignore_errors=True)
    canary = folder / "canary"
    canary.mkdir(parents=True)
    chance = random.Random(seed)
    base = chance.choice(list(graph_mutants.BASES))
    made = graph_mutants.Mutant(str(bases / base), folder / "m", str(canary / "file"), seed)
    attacks = [graph_mutants.rewired] if chance.random() < 0.6 else []
    attacks += chance.sample(graph_mutants.ATTACKS, chance.randint(0 if attacks else 1, 2))
    attacks += chance.sample(graph_mutants.DISGUISES, chance.choice([0, 0, 1, 2]))
    for attack in attacks:
        attack(made)
    if not made.altered():
        return altered(bases, folder, seed + 500_000)
    return made.write(), f"{base}: {', '.join(attack.__name__ for attack in attacks)}", canary


def test_altered_models_are_refused_or_write_nothing(tmp_path):
    for name, write in graph_mutants.BASES.items():
        write(str(tmp_path / "bases" / name))
    refused = harmless = dangerous = 0
    seed, end = _SEED * 1_000_000, time.monotonic() + _SECONDS
    while time.monotonic() < end:
        seed += 1
        directory, what, canary = altered(tmp_path / "bases", tmp_path / "w", seed)
        try:
            check_graph(directory)
        except ModelError:
            refused += 1
            if refused % 20 == 0:
                graph_mutants.load_and_run(directory)
                dangerous += bool(list(canary.iterdir()))
            continue
        assert not list(canary.iterdir())
        graph_mutants.load_and_run(directory)
        assert not list(canary.iterdir()), f"seed {seed}, {what}"
        harmless += 1
    print(f"refused {refused}, run without writing {harmless}, of each 20th refused wrote {dangerous}")
    assert refused and harmless and dangerous
