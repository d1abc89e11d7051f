"""`python -m pipeline.cli`: the command `detflow`, also when its script is not on PATH."""

import sys

from pipeline.cli import main

if __name__ == "__main__":
    sys.exit(main())
