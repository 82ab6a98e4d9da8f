"""Runs a model without dropout, whoever calls it: two kernels that compute the same draw different random numbers."""

from __future__ import annotations

from typing import Any

from torch.overrides import TorchFunctionMode

_DROPOUTS = {
    f"{name}{ending}"
    for name in ("dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout", "native_dropout")
    for ending in ("", "_")
} | {"dropout1d", "dropout2d", "dropout3d"}
# Functions with dropout inside: the place and the name of its probability.
_FUSED = {"scaled_dot_product_attention": (4, "dropout_p"), "multi_head_attention_forward": (10, "dropout_p")}
_RECURRENT = {"lstm", "gru", "rnn_tanh", "rnn_relu"}


class WithoutDropout(TorchFunctionMode):  # type: ignore[no-untyped-call]
    """Sets the probability of every dropout to 0, in functions, modules, fused attention and recurrent layers alike.

    `found` says whether there was any to switch off.

    >>> import torch
    >>> x = torch.ones(1000)
    >>> with WithoutDropout() as without:
    ...     same = torch.equal(torch.nn.functional.dropout(x, 0.5), x)
    >>> same, without.found
    (True, True)
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.found = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = list(args)
        named = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if name in _DROPOUTS:
            self._switch_off(given, named, 1, "p")
        elif name in _FUSED:
            self._switch_off(given, named, *_FUSED[name])
        elif name in _RECURRENT and len(given) == 9:
            # Packed sequences have the sizes of their batches as one more argument in front.
            self._switch_off(given, named, 5 if isinstance(given[3], bool) else 6, "dropout")
        return func(*given, **named)

    def _switch_off(self, given: list[Any], named: dict[str, Any], place: int, name: str) -> None:
        if name in named:
            self.found |= bool(named[name])
            named[name] = 0.0
        elif len(given) > place:
            self.found |= bool(given[place])
            given[place] = 0.0
        elif name == "p":
            self.found = True  # by default a half
            named[name] = 0.0
