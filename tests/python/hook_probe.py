"""Prints everything that a program can see of its interpreter, as JSON; for every Python from 2.7 on."""

import sys

# Before anything else is imported.
SEEN = {"modules": sorted(sys.modules), "path": list(sys.path), "argv": sys.argv, "warnoptions": sys.warnoptions}
SEEN["flags"] = [str(sys.flags), repr(getattr(sys, "_xoptions", None))]
SEEN["meta_path"] = [getattr(finder, "__name__", type(finder).__name__) for finder in sys.meta_path]
SEEN["path_hooks"] = [getattr(hook, "__name__", str(hook)) for hook in sys.path_hooks]
SEEN["importers"] = sorted(sys.path_importer_cache)
SEEN["excepthook"] = [sys.excepthook is sys.__excepthook__, sys.displayhook is sys.__displayhook__]
SEEN["own"] = [getattr(sys, name, None) is None for name in ("last_exc", "last_value", "ps1")]
SEEN["tracing"] = [repr(sys.gettrace()), repr(sys.getprofile()), sys.getrecursionlimit()]
if hasattr(sys, "unraisablehook"):
    SEEN["unraisable"] = sys.unraisablehook is sys.__unraisablehook__

import gc
import os
import threading
import warnings

# What docs/hooks.md says is changed.
SEEN["environment"] = sorted((key, value) for key, value in os.environ.items() if key not in ("PYTHONPATH", "NILO_RUN_DIR"))
SEEN["filters"] = [str(each) for each in warnings.filters]
SEEN["threads"] = [thread.name for thread in threading.enumerate()]
SEEN["thread_hook"] = repr(getattr(threading, "excepthook", None))
SEEN["callbacks"] = [str(each) for each in gc.callbacks] if hasattr(gc, "callbacks") else None
SEEN["gc"] = [gc.isenabled(), gc.get_threshold() if hasattr(gc, "get_threshold") else None]
SEEN["descriptors"] = sorted(os.listdir("/proc/self/fd"))
SEEN["customized"] = [name in sys.modules and getattr(sys.modules[name], "MINE", None) for name in ("sitecustomize", "usercustomize")]
SEEN["import"] = repr(__import__)
SEEN["later_modules"] = sorted(sys.modules)

import json

sys.stdout.write(json.dumps(SEEN, sort_keys=True, indent=1) + "\n")
if len(sys.argv) > 1:
    exec(sys.argv[1])
