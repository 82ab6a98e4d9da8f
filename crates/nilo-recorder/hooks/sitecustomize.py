# Python imports this file when it starts below `nilo run`, because its folder is the first of PYTHONPATH.
# It begins the hooks, takes itself and its folder away, and hands over to the environment's own sitecustomize, if there is one.
# Every Python must be able to read it, 2.7 too; the hooks themselves are for CPython from 3.10 on.
import sys

# Python 2 empties a module that nobody refers to, while it still runs.
_this_module = sys.modules.pop("sitecustomize", None)
_folder = __file__.rpartition("/")[0]
# `nilo run` writes True here where PYTHONPATH was not set.
_was_unset = False
_given = sys.modules["os"].environ.get("PYTHONPATH", "").split(":")
if _was_unset and _folder in _given and len(_given) > 1:
    # A script has added to it: without us "$PYTHONPATH:src" is ":src", and an empty place is the current folder.
    # Folders with a file like this one do not count: programs add them that ask first whether there is a path, such as `nilo run` inside this one.
    try:
        _is_file = sys.modules["os"].path.exists
        if [_each for _each in _given if _each != _folder and not _is_file(_each + "/sitecustomize.py")]:
            _here = sys.modules["os"].getcwd()
            _place = sys.path.index(_folder)
            if _here not in sys.path[:_place]:
                sys.path[_place + 1 :] = [_each for _each in sys.path[_place + 1 :] if _each != _here]
                sys.path[_place] = _here
    except Exception:
        pass
while _folder in sys.path:
    sys.path.remove(_folder)
sys.path_importer_cache.pop(_folder, None)

# Where bytecode lies apart from its source (PYTHONPYCACHEPREFIX), ours would stay there after the run.
_prefix = getattr(sys, "pycache_prefix", None)
_writes_none = sys.dont_write_bytecode
try:
    if _prefix:
        sys.dont_write_bytecode = True
        _place = __cached__
        sys.modules["os"].unlink(_place)
        while _place.count("/") > _prefix.rstrip("/").count("/") + 1:
            _place = _place.rpartition("/")[0]
            # Until it is not empty.
            sys.modules["os"].rmdir(_place)
except Exception:
    pass

try:
    _is_known = sys.version_info >= (3, 10) and sys.implementation.name == "cpython"
    if _is_known and sys.modules["os"].environ.get("NILO_HOOKS") not in ("0", "false", "no", "off"):
        # Not by its name: nothing is looked for, and nothing stays in sys.modules.
        _spec = sys.modules["_frozen_importlib_external"].spec_from_file_location("_nilo_hooks", _folder + "/nilo_hooks.py")
        _hooks = sys.modules["_frozen_importlib"].module_from_spec(_spec)
        _spec.loader.exec_module(_hooks)
        _hooks.begin(_folder)
except Exception:
    pass

sys.dont_write_bytecode = _writes_none

# Whatever this raises, `site` sees as it would without us.
import sitecustomize
