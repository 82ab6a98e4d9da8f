"""Watches for the end of a Python program and for imports that bring something to watch; `nilo_tell.py` has what is told of them.

Nothing that a program looks at is changed: no hook of `sys` or `threading` is set, nothing stays in `sys.path`, `sys.modules` or `sys.meta_path`,
and no module is imported that the program has not imported. If something fails here, the program goes on as without it.
It is read at every start of Python, so it is short; the other files are read only where they are needed.
"""

import os
import sys

_folder = None
# What the other files define.
_parts = {}
# Address space for the file that tells of exceptions: one that is raised because memory ran out leaves none to read it.
# It is never touched, so it takes no memory.
_RESERVED = 2 << 20
_reserve = None
# Python's own functions, whatever the program puts in their places later: one that watches imports must not see ours.
_builtins = None
# What else is to be done when the program ends.
_at_end = []
# What Python had printed last when this process was forked: it ended the parent.
_of_parent = None


def begin(folder):
    global _folder, _reserve, _builtins
    _folder = folder
    _builtins = dict(__builtins__)
    # Who traces memory from the beginning would see it.
    if "tracemalloc" not in sys._xoptions and not os.environ.get("PYTHONTRACEMALLOC"):
        _reserve = bytes(_RESERVED)
    # Exit handlers are called from last to first: this one after all of the program's.
    is_known = "atexit" in sys.modules
    import atexit

    atexit.register(_at_exit)
    if not is_known:
        del sys.modules["atexit"]
    sys.modules["os"].register_at_fork(after_in_child=_forget_parent)
    _watch_imports({"threading": "nilo_threads.py", "multiprocessing.process": "nilo_children.py", "torch": "nilo_torch.py"})


def part(name):
    """The names of another file of the hooks."""
    global _reserve
    if name not in _parts:
        if name == "nilo_tell.py":
            _reserve = None
        path = _folder + "/" + name
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            source = os.read(descriptor, 1 << 20)
        finally:
            os.close(descriptor)
        names = {"__builtins__": _builtins, "folder": _folder, "part": part, "at_end": _at_end, "tell_end": _tell_end, "tell_main": _tell_main}
        exec(compile(source, path, "exec"), names)
        _parts[name] = names
    return _parts[name]


def _watch_imports(wanted):
    """Begins with the part `wanted[name]` when a module has been imported.

    Python's own function for what is not in `sys.modules` yet is wrapped until all have come. A finder in `sys.meta_path` would be seen,
    and would be asked before the import, not after it. The wrapper says that it lies in the file of the function that it wraps, so that Python leaves it out of tracebacks too.
    """
    importing = sys.modules["_frozen_importlib"]
    original = importing._find_and_load

    def _find_and_load(name, import_):
        module = original(name, import_)
        if name in wanted:
            try:
                file = wanted.pop(name)
                if not wanted and importing._find_and_load is _find_and_load:
                    importing._find_and_load = original
                part(file)["begin"](sys.modules[name])
            except Exception:
                pass
        return module

    _find_and_load.__code__ = _find_and_load.__code__.replace(co_filename=original.__code__.co_filename)
    # A file of `site-packages` may have imported some of them before us.
    for name in [name for name in wanted if name in sys.modules]:
        part(wanted.pop(name))["begin"](sys.modules[name])
    if wanted:
        importing._find_and_load = _find_and_load


def _at_exit():
    _tell_end()
    for end in _at_end:
        try:
            end()
        except BaseException:
            pass


def _tell_end():
    error = _printed()
    if error is not None and id(error) != _of_parent and _has_ended_program(error):
        _tell_main(error)


def _printed():
    # Python keeps the exception that it has printed, so nothing has to be hooked for it.
    return getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)


def _has_ended_program(error):
    """Whether it has left the outermost function of the program. Consoles and test runners keep exceptions there that they have caught."""
    trace = error.__traceback__
    if trace is not None:
        return trace.tb_frame.f_back is None
    # A program that cannot be compiled has not begun.
    return all(name.startswith("__") for name in vars(sys.modules["__main__"]))


def _forget_parent():
    global _of_parent
    error = _printed()
    _of_parent = None if error is None else id(error)


def _tell_main(error):
    # After Ctrl-C no code may be compiled: Python would forget that it has to die of the signal.
    if error is not None and not isinstance(error, (KeyboardInterrupt, SystemExit, GeneratorExit)):
        # The program's own code is called for the message, and may exit or be interrupted.
        try:
            part("nilo_tell.py")["tell_process"](error)
        except BaseException:
            pass
