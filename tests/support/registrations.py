"""Forget what a test registered."""

from component_specs import JOBS, registration
from component_specs.kfp_outputs import KFP_OUTPUTS
from pipeline import registered_steps
from pipeline.settings import step_ids


def forget_component(name):
    """Remove a registered component, if it is known."""
    if registration._MODULES.pop(name, None):
        del JOBS[name], KFP_OUTPUTS[name]


def forget_step(step_id):
    """Remove a registered step, if it is known."""
    if registered_steps._STEPS.pop(step_id, None):
        step_ids._registered.remove(step_id)
