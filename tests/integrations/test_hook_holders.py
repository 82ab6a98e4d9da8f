"""Who holds memory when an allocation on a GPU fails, on tensors of the CPU: the hook's search is the same for every device."""

import pathlib
import sys
import types
import weakref

import pytest
import torch

HOOK = pathlib.Path(__file__).parents[2] / "crates/nilo-recorder/hooks/nilo_holders.py"
MIB = 1 << 20


@pytest.fixture(scope="module")
def hook():
    names = types.ModuleType("nilo_holders").__dict__
    exec(compile(HOOK.read_text(), str(HOOK), "exec"), names)
    return names


@pytest.fixture
def look(hook):
    def look():
        return hook["look"](torch, torch.device("cpu"), sys._getframe(1))

    return look


def held(found, name, kind):
    """Bytes and number of tensors of one holder."""
    (one,) = [each for each in found["holders"] if (each["name"], each["kind"]) == (name, kind)]
    return one["bytes"], one["tensors"]


def floats(mib):
    return torch.zeros(mib * MIB // 4)


def test_a_model_its_gradients_its_optimizer_and_what_is_kept(look):
    model = torch.nn.Linear(512, 2048, bias=False)  # 4 MiB
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.zeros(1, 512)).sum().backward()
    optimizer.step()
    kept = [floats(1) for _ in range(12)]
    found = look()
    assert held(found, "model", "parameters") == (4 * MIB, 1)
    assert held(found, "model", "gradients") == (4 * MIB, 1)
    assert held(found, "optimizer", "optimizer state")[0] == pytest.approx(8 * MIB, abs=64)
    assert held(found, "kept", "tensors") == (12 * MIB, 12)
    assert [each["name"] for each in found["holders"]][:2] == ["kept", "optimizer"]
    assert found["is_training"] is True and found["grad_enabled"] is True
    assert {each["function"] for each in found["holders"] if each["name"] == "kept"} == {"test_a_model_its_gradients_its_optimizer_and_what_is_kept"}
    del kept


class Trainer:
    def __init__(self):
        self.model = torch.nn.Linear(512, 512).eval()
        self.history = {"outputs": []}

    def evaluate(self, look):
        with torch.no_grad():
            for _ in range(3):
                self.history["outputs"].append((self.model(torch.zeros(1, 512)), floats(1)))
            return look()


def test_attributes_of_an_object_are_holders(look):
    found = Trainer().evaluate(look)
    assert held(found, "self.history", "tensors")[0] >= 3 * MIB
    assert held(found, "self.model", "parameters")[0] == (512 * 512 + 512) * 4
    assert found["is_training"] is False and found["grad_enabled"] is False
    assert "graph_passes" not in found


def test_what_two_variables_share_counts_once(look):
    one = floats(2)
    view, again = one[:100], [one, {"again": one.view(-1)}]
    found = look()
    assert sum(each["bytes"] for each in found["holders"]) == 2 * MIB
    del view, again


@pytest.mark.parametrize("keep", ["sum", "list"])
def test_the_graphs_of_several_forward_passes(look, keep):
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    total, losses = torch.zeros(()), []
    for _ in range(5):
        loss = model(torch.randn(4, 8)).square().mean()
        if keep == "sum":
            total = total + loss
        else:
            losses.append(loss)
    del loss
    found = look()
    assert (found["graph_passes"], found["graph_holder"]) == (5, "total" if keep == "sum" else "losses")


def test_one_pass_is_none_to_speak_of(look):
    model = torch.nn.Linear(8, 1)
    loss = model(torch.randn(4, 8)).mean()
    assert "graph_passes" not in look()
    del loss


def test_nothing_is_kept_alive(look):
    """Before Python 3.13 the variables of a frame are read from a copy that lives as long as the frame."""
    big = floats(1)
    watched = weakref.ref(big)
    look()
    del big
    assert watched() is None


def test_odd_objects_are_left_alone(look):
    class Touchy:
        """Whoever asks it anything breaks."""

        def __getattribute__(self, name):
            raise RuntimeError("asked for " + name)

        def __iter__(self):
            raise RuntimeError("gone through")

        __len__ = __iter__

    class Strange(torch.Tensor):
        @classmethod
        def __torch_function__(cls, *_, **__):
            raise RuntimeError("asked")

    touchy, strange, endless = Touchy(), floats(1).as_subclass(Strange), []
    endless.append(endless)
    held_by = [touchy, strange, endless, floats(3)]
    found = look()
    assert held(found, "held_by", "tensors") == (3 * MIB, 1)


def test_the_search_ends(look, hook):
    many = [[floats(0)] for _ in range(200_000)]
    found = look()
    assert len(found["holders"]) <= hook["MOST_HOLDERS"]
    del many
