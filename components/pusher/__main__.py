"""The container's entry point."""

from component_specs import PusherJob
from components._runtime.container import main
from components.pusher.run import run

if __name__ == "__main__":
    main(PusherJob, run)
