"""Who holds GPU memory when an allocation fails: the variables of the program that lead to tensors, and to the graphs of forward passes.

Nothing of the program's own is called, nothing is kept, and the search is bounded. Loaded where an allocation fails, and not before.
"""

import collections
import os
import sys

MOST_OBJECTS = 50_000
MOST_NODES = 20_000
MOST_HOLDERS = 8
DEEPEST = 6
_OPTIMIZED = 0x1  # CO_OPTIMIZED: the frame of a function, whose variables have no dictionary of their own
# References to the copy of a frame's variables that are ours: the frame's, a variable's and an argument's.
_OWN_REFERENCES = 3
_SEQUENCES = (list, tuple, set, frozenset, collections.deque)


def look(torch, device, frame):
    """What was found, as fields of the failure."""
    search = _Search(torch, device)
    found = []
    for function, name, value in _variables(torch, frame):
        before = dict(search.totals)
        search.add(value)
        for kind, (count, size) in search.totals.items():
            old_count, old_size = before.get(kind, (0, 0))
            if size > old_size:
                found.append({"name": name, "function": function, "kind": kind, "bytes": size - old_size, "tensors": count - old_count})
        if search.graph_roots:
            search.roots.append((name, search.graph_roots))
            search.graph_roots = []
    found.sort(key=lambda holder: -holder["bytes"])
    fields = {"holders": found[:MOST_HOLDERS], "grad_enabled": torch.is_grad_enabled()}
    if search.is_training is not None:
        fields["is_training"] = search.is_training
    passes, holder = _passes(search.roots)
    if passes > 1:
        fields["graph_passes"], fields["graph_holder"] = passes, holder
    return fields


def _variables(torch, frame):
    """Function, name and value of the program's variables, those of the outermost function first; an object's attributes count as variables."""
    own = os.path.dirname(torch.__file__) + os.sep
    frames = []
    while frame is not None:
        if not frame.f_code.co_filename.startswith(own):
            frames.append(frame)
        frame = frame.f_back
    seen = set()
    plain = (torch.Tensor, torch.nn.Module, torch.optim.Optimizer, dict, *_SEQUENCES)
    for frame in reversed(frames):
        is_function = bool(frame.f_code.co_flags & _OPTIMIZED)
        function = frame.f_code.co_name if is_function else ""
        for name, value in _named(frame, is_function, seen):
            attributes = None if issubclass(type(value), plain) else _attributes(value)
            if attributes is None:
                yield function, name, value
            else:
                for attribute, part in list(attributes.items()):
                    yield function, "%s.%s" % (name, attribute), part


def _named(frame, is_function, seen):
    names = frame.f_globals
    variables = []
    if id(names) not in seen and names.get("__name__") == "__main__":
        seen.add(id(names))
        variables += [(name, value) for name, value in list(names.items()) if not name.startswith("__")]
    if is_function:
        copied = frame.f_locals
        variables += list(copied.items())
        if sys.version_info < (3, 13) and sys.gettrace() is None and sys.getrefcount(copied) <= _OWN_REFERENCES:
            # Before Python 3.13 it is a copy that lives as long as the frame: what the program lets go of would stay.
            copied.clear()
    return variables


def _attributes(value):
    """The attributes of an object of a class of the program or of a library, without asking the object."""
    kind = type(value)
    if issubclass(kind, (type, type(sys))) or kind.__module__ in ("builtins", "types", "functools"):
        return None
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except Exception:
        return None
    return attributes if type(attributes) is dict else None


class _Search:
    """Adds up the memory that values lead to; each tensor counts once."""

    def __init__(self, torch, device):
        self.torch, self.device = torch, device
        self.totals, self.roots, self.graph_roots = {}, [], []
        self.is_training = None
        self._most_parameters = 0
        self._objects, self._storages = set(), set()

    def add(self, value):
        pending = [(value, 0, "tensors")]
        while pending and len(self._objects) < MOST_OBJECTS:
            value, depth, kind = pending.pop()
            if id(value) in self._objects or depth > DEEPEST:
                continue
            # Not `isinstance`, which asks the object itself.
            of = type(value)
            if issubclass(of, self.torch.Tensor):
                self._objects.add(id(value))
                self._add_tensor(value, kind)
            elif issubclass(of, self.torch.nn.Module):
                self._objects.add(id(value))
                self._add_module(value, pending)
            elif issubclass(of, self.torch.optim.Optimizer):
                self._objects.add(id(value))
                pending.append((vars(value).get("state"), depth + 1, "optimizer state"))
            elif issubclass(of, dict):
                self._objects.add(id(value))
                pending.extend((part, depth + 1, kind) for part in list(dict.values(value)))
            elif of in _SEQUENCES:
                self._objects.add(id(value))
                pending.extend((part, depth + 1, kind) for part in list(value))
            elif (attributes := _attributes(value)) is not None:
                self._objects.add(id(value))
                pending.append((attributes, depth + 1, kind))

    def _add_module(self, module, pending):
        fields = vars(module)
        size = 0
        for part in list((fields.get("_parameters") or {}).values()):
            if part is not None:
                size += self._add_tensor(part, "parameters")
                if part.grad is not None:
                    self._add_tensor(part.grad, "gradients")
        for part in list((fields.get("_buffers") or {}).values()):
            if part is not None:
                size += self._add_tensor(part, "parameters")
        if size >= self._most_parameters:
            self._most_parameters = size
            self.is_training = bool(fields.get("training"))
        pending.extend((part, 0, "tensors") for part in list((fields.get("_modules") or {}).values()))
        known = ("_parameters", "_buffers", "_modules")
        pending.extend((part, 1, "tensors") for name, part in list(fields.items()) if name not in known and not name.startswith("_"))

    def _add_tensor(self, tensor, kind):
        # Tensors of other classes may answer with code of their own.
        if type(tensor) not in (self.torch.Tensor, self.torch.nn.Parameter) or tensor.device != self.device:
            return 0
        if kind == "tensors" and tensor.grad_fn is not None:
            self.graph_roots.append(tensor.grad_fn)
        storage = tensor.untyped_storage()
        address = storage.data_ptr()
        if address == 0 or address in self._storages:
            return 0
        self._storages.add(address)
        count, size = self.totals.get(kind, (0, 0))
        self.totals[kind] = (count + 1, size + storage.nbytes())
        return storage.nbytes()


def _passes(roots):
    """How many forward passes the graph of a variable is of, at most, and which variable: so often each parameter is used in it."""
    most, holder, nodes = 1, None, 0
    for name, pending in roots:
        seen, uses = {}, {}
        while pending and nodes < MOST_NODES:
            node = pending.pop()
            if id(node) in seen:
                continue
            seen[id(node)] = node
            nodes += 1
            for following, _ in node.next_functions:
                if following is not None:
                    if type(following).__name__ == "AccumulateGrad":
                        uses[id(following)] = uses.get(id(following), 0) + 1
                    pending.append(following)
        middle = sorted(uses.values())[len(uses) // 2] if uses else 0
        if middle > most:
            most, holder = middle, name
    return most, holder
