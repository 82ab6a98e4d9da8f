"""`python -m nilometer.optimize --mode full|training|quick` is `nilo optimize`."""

import sys

from .._command import run

if __name__ == "__main__":
    run(["optimize", *sys.argv[1:]])
