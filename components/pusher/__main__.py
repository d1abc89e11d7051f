"""The container's entry point."""

from component_specs import PusherJob
from components.pusher.run import run
from components.runtime.container import main

if __name__ == "__main__":
    main(PusherJob, run)
