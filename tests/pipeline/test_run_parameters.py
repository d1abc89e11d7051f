from component_specs import JOBS
from component_specs.annotations import job_fields
from components.run_checker.run import FILLED
from pipeline.dag import build_dag
from pipeline.run_checks import check_step
from pipeline.run_parameters import CHECKER, RUN_PARAMETERS, declared_parameters, set_parameters
from pipeline.settings.settings_file import load_settings


def test_every_target_is_a_field_texts_go_to_run_checker_alone_and_a_package_declares_them():
    for parameter in RUN_PARAMETERS:
        kinds = {job_fields(JOBS[step]).parameters[field].carried_as for step, field in parameter.targets}
        assert len(kinds) == 1
        if kinds == {str}:
            assert [step for step, _ in parameter.targets] == [CHECKER] and parameter.name in FILLED

    declared = declared_parameters()
    assert list(declared) == [p.name for p in RUN_PARAMETERS]
    assert declared["train_steps"].type == "NUMBER_INTEGER" and declared["span"].type == "STRING"
    assert not any(p.required for p in declared.values())


def test_values_reach_every_step_that_takes_them(digits_settings):
    settings = load_settings(digits_settings)
    steps = [check_step(settings), *build_dag(settings).steps]
    changed = {s.id: s for s in set_parameters(steps, {"train_steps": 7, "learning_rate": 1, "span": "3"})}
    assert changed[CHECKER].parameters["train_steps"] == changed["trainer"].parameters["train_steps"] == 7
    assert type(changed["trainer"].parameters["learning_rate"]) is float
    assert changed[CHECKER].parameters["span"] == "3"
    same = set_parameters(steps, {})
    assert [s.parameters for s in same] == [dict(s.parameters) for s in steps]
