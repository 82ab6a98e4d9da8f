"""`python -m nilometer.memory profile`, `oom`, `leak` and `monitor` are those of the command `nilo`."""

import sys

from .._command import run

if __name__ == "__main__":
    run(sys.argv[1:])
