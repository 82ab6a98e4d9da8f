"""Tells of exceptions that end a thread. `threading.excepthook` stays the program's own, also where it sets one later."""

import sys


def begin(threading):
    make = threading._make_invoke_excepthook

    def _make_invoke_excepthook():
        invoke = make()

        def invoke_excepthook(thread):
            invoke(thread)
            try:
                part("nilo_tell.py")["tell_thread"](sys.exc_info()[1], thread)
            except BaseException:
                pass

        return invoke_excepthook

    threading._make_invoke_excepthook = _make_invoke_excepthook
    # Called before Python waits for threads, which may take long or for ever.
    threading._register_atexit(tell_end)
