"""`python -m nilometer` is the command `nilo`."""

import sys

from ._command import run

if __name__ == "__main__":
    run(sys.argv[1:])
