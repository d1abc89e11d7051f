"""Whatever is done to a config: it passes the check, or one ConfigError names fields."""

import logging

from hypothesis import given, settings

from detection_core.config.check import check_pipeline_config, find_problems
from detection_core.config.load import format_pipeline_config, load_pipeline_config, parse_pipeline_config
from detection_core.config.refusals import find_refused, find_without_effect
from detection_core.errors import ConfigError
from tests.support.configs import PATHS
from tests.support.mutations import mutated_configs
from tests.support.zoo_configs import ZOO, zoo_config

SEEDS = [*map(load_pipeline_config, PATHS), *map(zoo_config, ZOO)]


@given(mutated_configs(SEEDS))
@settings(max_examples=80, deadline=None)
def test_a_changed_config_passes_or_is_one_error_that_names_its_fields(config):
    logging.disable(logging.WARNING)
    found = [*find_refused(config), *find_problems(config)]
    inside = tuple(f"{problem.path}." for problem in find_refused(config))
    try:
        check_pipeline_config(config, where="a.config")
    except ConfigError as error:
        assert error.where == "a.config" and str(error).startswith("a.config: ")
        assert all(p.path in error.message or p.path.startswith(inside) for p in found)
        assert found
    else:
        assert not found
    finally:
        logging.disable(logging.NOTSET)


@given(mutated_configs(SEEDS))
@settings(max_examples=40, deadline=None)
def test_a_changed_config_comes_back_from_its_text_and_nothing_is_refused_and_without_effect(config):
    assert parse_pipeline_config(format_pipeline_config(config)) == config
    refused = {problem.path for problem in find_refused(config)}
    assert not refused & {problem.path for problem in find_without_effect(config)}
