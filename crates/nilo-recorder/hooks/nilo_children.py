"""Tells of exceptions that end a child of multiprocessing, which prints them itself and leaves without Python's exit handlers.

Before it prints one it asks for its own name, while the exception is being handled. A wrapper of its `run` would be in the traceback;
its finalizers are called too late since Python 3.12, and never after `spawn`.
"""

import sys


def begin(process):
    kind = process.BaseProcess
    before = kind.name
    prints = kind._bootstrap.__code__

    def name(self):
        if sys._getframe(1).f_code is prints:
            tell_main(sys.exc_info()[1])
        return before.fget(self)

    kind.name = property(name, before.fset, before.fdel, before.__doc__)
