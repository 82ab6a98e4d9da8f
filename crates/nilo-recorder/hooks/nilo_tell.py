"""Tells the recorder of an exception that nobody caught: adds a line to the file `told.jsonl` of this folder."""

import builtins
import os
import sys
import time

# As the recorder keeps them; what is longer is cut here, so that a line stays small.
MOST_FRAMES = 12
MOST_CAUSES = 8
LONGEST_MESSAGE = 4000
LONGEST_NAME = 500
# Lines beyond this size of the file are not added: nobody seems to read it.
LARGEST_FILE = 16 << 20
# Python's own code. What pip installs lies in `site-packages` or `dist-packages`.
LIBRARIES = (os.path.dirname(os.__file__) + "/", "<frozen ")

# Which exception of the main thread was told already. It is not kept: it refers to everything that its functions had.
_told = None


def tell_process(error):
    """An exception that ends this process. At a prompt it ends nothing."""
    global _told
    is_interactive = sys.flags.interactive or os.environ.get("PYTHONINSPECT") or hasattr(sys, "ps1")
    if is_interactive or hasattr(builtins, "__IPYTHON__"):
        return
    if id(error) != _told and not _is_told_by_nilometer(error):
        _told = id(error)
        tell(_description(error))


def tell_thread(error, thread):
    """An exception that has ended a thread."""
    if isinstance(error, (KeyboardInterrupt, SystemExit, GeneratorExit)) or _is_told_by_nilometer(error):
        return
    fields = _description(error)
    fields["thread"] = str(getattr(thread, "name", None) or "a thread")[:LONGEST_NAME]
    tell(fields)


def _is_told_by_nilometer(error):
    """Where the program has imported nilometer, that records its exceptions."""
    nilometer = sys.modules.get("nilometer._exceptions")
    return nilometer is not None and nilometer.is_recorded(error)


def tell(fields):
    """Adds a line."""
    write(line_of(fields))


def line_of(fields):
    fields["time_nanos"] = time.monotonic_ns()
    fields["pid"] = os.getpid()
    return _json(fields) + "\n"


def write(lines):
    """Adds lines by one `write` to a file opened for appending, which the kernel keeps apart from those of other processes."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(folder + "/told.jsonl", flags, 0o600)
    try:
        if os.fstat(descriptor).st_size < LARGEST_FILE:
            os.write(descriptor, lines.encode("ascii"))
    finally:
        os.close(descriptor)


def _description(error):
    frames, user_code = _frames(error.__traceback__)
    fields = {"event": "exception", "type_name": _type_name(error), "message": _message(error), "causes": _causes(error)}
    if frames:
        fields["frames"] = frames
        fields["raised_at"] = frames[-1]
        if user_code is not None and user_code != frames[-1]:
            fields["user_code"] = user_code
    return fields


def _type_name(error):
    kind = type(error)
    module = getattr(kind, "__module__", None)
    name = str(getattr(kind, "__qualname__", None) or kind.__name__)
    name = name if module in (None, "builtins", "__main__") else "%s.%s" % (module, name)
    return name[:LONGEST_NAME]


def _message(error):
    try:
        # A class derived from str has methods of its own.
        text = str.__getitem__(str(error), slice(None))
    except Exception:
        return "<its message raised an exception>"
    if len(text) > LONGEST_MESSAGE:
        text = text[: LONGEST_MESSAGE - 1001] + "\u2026" + text[-1000:]
    return text


def _causes(error):
    found = []
    seen = {id(error)}
    while len(found) < MOST_CAUSES:
        before = error.__cause__
        if before is None and not error.__suppress_context__:
            before = error.__context__
        if before is None or id(before) in seen:
            break
        seen.add(id(before))
        found.append(("%s: %s" % (_type_name(before), _message(before)))[:LONGEST_NAME])
        error = before
    return found


def _frames(trace):
    """The last lines on the way to where it was raised, outermost first, and the innermost line that is neither a library's nor Python's own."""
    frames = []
    user_code = None
    while trace is not None:
        code = trace.tb_frame.f_code
        file = str(code.co_filename)
        frame = {"file": file[-LONGEST_NAME:], "line": trace.tb_lineno or 0, "function": str(code.co_name)[:LONGEST_NAME]}
        frames.append(frame)
        if len(frames) > MOST_FRAMES:
            del frames[0]
        if is_own_code(file):
            user_code = frame
        trace = trace.tb_next
    return frames, user_code


def is_own_code(file):
    return "-packages/" not in file and not file.startswith(LIBRARIES)


def _json(value):
    """Not by `json`, which the program may not have imported."""
    if isinstance(value, str):
        return '"%s"' % "".join(map(_character, value))
    if isinstance(value, dict):
        return "{%s}" % ",".join("%s:%s" % (_json(key), _json(item)) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return "[%s]" % ",".join(map(_json, value))
    if type(value) is bool:
        return "true" if value else "false"
    return repr(value) if type(value) in (int, float) else "null"


def _character(character):
    number = ord(character)
    if character in '"\\':
        return "\\" + character
    if 32 <= number < 127:
        return character
    if 0xD800 <= number < 0xE000:
        return "\\ufffd"  # Half of a character.
    if number > 0xFFFF:
        number -= 0x10000
        return "\\u%04x\\u%04x" % (0xD800 + (number >> 10), 0xDC00 + (number & 0x3FF))
    return "\\u%04x" % number
