"""What a model was before something was tried on it: attributes, buffers, hooks, precision. Values of weights are not copied."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch

_CONTAINERS = (dict, OrderedDict, list, set)
_OF_MODULES = ("_parameters", "_modules")


def attributes_of(model: torch.nn.Module) -> Callable[[], None]:
    """Notes what a run of the model may leave behind: attributes of its modules and which tensors its buffers are. Gives the function that puts it back.

    A module that became another class (a lazy one that has seen its first input) stays what it became.
    """
    kept = [(module, type(module), _shallow(vars(module), _is_left_by_runs)) for module in model.modules()]

    def put_back() -> None:
        for module, kind, attributes in kept:
            if type(module) is kind:
                _restore(vars(module), attributes, _is_left_by_runs)

    return put_back


def whole_of(model: torch.nn.Module) -> Callable[[], None]:
    """Notes everything that a change may do to a model: also modules, hooks, parameters and their precision, and the model's configuration."""
    modules = list(model.modules())
    configs = {id(config): config for config in (getattr(module, "config", None) for module in modules) if hasattr(config, "__dict__")}
    kept = [(vars(owner), _shallow(vars(owner), _is_anything)) for owner in (*modules, *configs.values())]
    kinds = [(module, type(module)) for module in modules]
    tensors = [(tensor, tensor.data, tensor.requires_grad) for tensor in (*model.parameters(), *model.buffers())]

    def put_back() -> None:
        for module, kind in kinds:
            if type(module) is not kind:
                module.__class__ = kind
        for attributes, earlier in kept:
            _restore(attributes, earlier, _is_anything)
        for tensor, data, needs_gradient in tensors:
            if tensor.data_ptr() != data.data_ptr() or tensor.dtype != data.dtype:
                tensor.data = data
            if tensor.requires_grad != needs_gradient:
                tensor.requires_grad_(needs_gradient)

    return put_back


def _is_left_by_runs(name: str) -> bool:
    return name not in _OF_MODULES and not (name.startswith("_") and "hooks" in name)


def _is_anything(_name: str) -> bool:
    return True


def _shallow(attributes: dict[str, Any], is_meant: Callable[[str], bool]) -> dict[str, tuple[Any, Any]]:
    """Each attribute with a copy of what it contains, where it is a plain container."""
    return {name: (value, value.copy() if type(value) in _CONTAINERS else None) for name, value in attributes.items() if is_meant(name)}


def _restore(attributes: dict[str, Any], earlier: dict[str, tuple[Any, Any]], is_meant: Callable[[str], bool]) -> None:
    for name in [name for name in attributes if is_meant(name) and name not in earlier]:
        del attributes[name]
    for name, (value, contents) in earlier.items():
        attributes[name] = value
        if contents is not None and not _has_same(value, contents):
            value.clear()
            (value.extend if isinstance(value, list) else value.update)(contents)


def _has_same(value: Any, contents: Any) -> bool:
    if len(value) != len(contents):
        return False
    if isinstance(value, dict):
        return list(value) == list(contents) and all(map(_is, value.values(), contents.values()))
    return value == contents if isinstance(value, set) else all(map(_is, value, contents))


def _is(one: Any, other: Any) -> bool:
    return one is other
