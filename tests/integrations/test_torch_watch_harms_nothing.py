"""nilometer.torch.watch: nothing else changes, whatever the model is."""

import copy
import gc
import io
import subprocess
import sys
import weakref

import pytest
import torch
from conftest import subprocess_environment
from torch_training import adam, batches, small_model, train

import nilometer
from nilometer.torch import watch


def test_weights_are_bit_for_bit_those_of_an_unwatched_training():
    results = []
    for is_watched in (False, True):
        model = small_model()
        optimizer = adam(model)
        handle = watch(model, optimizer) if is_watched else None
        torch.manual_seed(11)
        train(model, optimizer, batches(20), accumulate=2)
        if handle:
            handle.remove()
        results.append(torch.nn.utils.parameters_to_vector(model.parameters()))
    assert torch.equal(*results)


def test_neither_model_nor_graph_is_kept_alive():
    model = small_model()
    optimizer = adam(model)
    handle = watch(model, optimizer)
    output = model(batches(1)[0][0])
    node, alive = output.grad_fn, weakref.ref(model)
    result = weakref.ref(output)
    output.sum().backward()
    optimizer.step()
    gc.disable()
    try:
        del output
        assert result() is None
        del node, optimizer, model
        assert alive() is None, "reference counting alone must free the model"
    finally:
        gc.enable()
    handle.remove()


def test_a_forgotten_watch_goes_with_its_model():
    model = small_model()
    alive = weakref.ref(watch(model))
    assert alive() is not None
    gc.disable()
    try:
        del model
        assert alive() is None
    finally:
        gc.enable()
    other = small_model()
    train(other, adam(other), batches(1))


def test_the_graph_of_an_unused_output_is_freed_at_once():
    class Kept(torch.autograd.Function):
        freed = []

        @staticmethod
        def forward(ctx, x):
            ctx.marker = Marker()
            Kept.freed.append(weakref.ref(ctx.marker))
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            return gradient

    class Marker:
        pass

    class Model(torch.nn.Linear):
        def forward(self, x):
            return Kept.apply(super().forward(x))

    model = Model(6, 2)
    with watch(model, adam(model)):
        output = model(batches(1)[0][0])
        del output
        assert Kept.freed[0]() is None


def test_copies_and_saved_models_have_empty_hooks(tmp_path, recorded):
    model = small_model()
    with watch(model, adam(model)):
        twin = copy.deepcopy(model)
        buffer = io.BytesIO()
        torch.save(model, tmp_path / "model.pt")
        torch.save(model, buffer)
        twin(torch.ones(1, 6)).sum().backward()
    buffer.seek(0)
    loaded = torch.load(buffer, weights_only=False)
    loaded(torch.ones(1, 6)).sum().backward()
    # A reader without Nilometer can load it.
    code = (
        "import sys; sys.modules['nilometer'] = None; import torch; "
        "model = torch.load('model.pt', weights_only=False); print(model(torch.ones(1, 6)).shape[1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=subprocess_environment(), capture_output=True, text=True
    )
    assert done.stdout.strip() == "2", done.stderr
    assert recorded().phases == []


@pytest.mark.parametrize("compiled_first", [True, False])
def test_compiled_models_train_as_before(recorded, compiled_first):
    model = small_model()
    optimizer = adam(model)
    if compiled_first:
        called = torch.compile(model, backend="eager", fullgraph=True)
        handle = watch(called, optimizer)
    else:
        handle = watch(model, optimizer)
        called = torch.compile(model, backend="eager", fullgraph=True)
    train(called, optimizer, batches(3))
    handle.remove()
    run = recorded()
    assert run.phase("optimizer").step[0] == 0
    if compiled_first:
        assert run.phase("forward").step.tolist() == [0, 1, 2]
        assert run.phase("backward").step.tolist() == [0, 1, 2]


def test_trouble_warns_once_and_training_goes_on(monkeypatch, recorded):
    class Batch(dict):
        def values(self):
            raise ArithmeticError("on purpose")

    class Model(torch.nn.Linear):
        def forward(self, batch):
            return super().forward(batch["x"])

    monkeypatch.setenv("NILO_STRICT", "0")
    model = Model(6, 2)
    optimizer = adam(model)
    before = model.weight.detach().clone()
    with watch(model, optimizer):
        with pytest.warns(nilometer.NilometerWarning, match="watch: ArithmeticError: on purpose") as caught:
            for x, _ in batches(3):
                model(Batch(x=x)).sum().backward()
                optimizer.step()
    assert len(caught) == 1
    assert not torch.equal(model.weight, before)


def test_trouble_raises_in_strict_mode():
    class Batch(dict):
        def values(self):
            raise ArithmeticError("on purpose")

    model = torch.nn.Identity()
    with watch(model), pytest.raises(ArithmeticError, match="on purpose"):
        model(Batch())


def test_a_model_that_may_be_replicated_is_watched_by_hooks(monkeypatch, recorded, tmp_path):
    monkeypatch.setattr("nilometer.torch._can_be_replicated", lambda model: True)
    model = small_model()
    optimizer = adam(model)
    with watch(model, optimizer):
        assert model._forward_hooks and "_compiled_call_impl" not in vars(model)
        train(model, optimizer, batches(3))
        twin = copy.deepcopy(model)
        torch.save(model, tmp_path / "model.pt")
        twin(torch.ones(1, 6)).sum().backward()
    assert not model._forward_hooks and not model._forward_pre_hooks
    run = recorded()
    for name in ("forward", "backward", "optimizer"):
        assert run.phase(name).step.tolist() == [0, 1, 2], name
    assert run.throughput("samples").value.tolist() == [4, 8, 12]


@pytest.mark.parametrize("compiled_first", [True, False])
def test_a_module_that_compiles_itself_trains_as_before(recorded, compiled_first):
    model = small_model()
    optimizer = adam(model)
    if compiled_first:
        model.compile(backend="eager")
    compiled = model._compiled_call_impl
    with watch(model, optimizer):
        if not compiled_first:
            model.compile(backend="eager")
        train(model, optimizer, batches(2))
    assert (model._compiled_call_impl is compiled) == compiled_first
    run = recorded()
    # A call that is compiled while it is watched is not seen: steps are counted by forwards.
    assert run.phase("optimizer").step.tolist() == ([0, 1] if compiled_first else [0, 0])
    if compiled_first:
        assert run.phase("forward").step.tolist() == [0, 1]


def test_a_class_of_ones_own_is_compiled_in_one_graph_while_it_is_watched():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = small_model()

        def forward(self, x):
            return self.inner(x)

    model = Model()
    optimizer = adam(model)
    with watch(model, optimizer):
        train(torch.compile(model, backend="eager", fullgraph=True), optimizer, batches(2))


def test_two_watches_on_one_model_come_off_in_any_order(recorded):
    model = small_model()
    optimizer = adam(model)
    first, second = watch(model, optimizer), watch(model, optimizer, step=None)
    train(model, optimizer, batches(1))
    first.remove()
    train(model, optimizer, batches(1))
    second.remove()
    train(model, optimizer, batches(1))
    run = recorded()
    assert len(run.phase("forward").value) == 3
    assert run.throughput("samples").value.tolist() == [4, 4, 8]


def test_a_compiled_model_is_freed_with_its_watch():
    model = small_model()
    model.compile(backend="eager")
    watch(model, adam(model))
    alive = weakref.ref(model)
    del model
    gc.collect()
    assert alive() is None


def test_hooks_of_ones_own_on_the_output_stay(recorded):
    model = small_model()
    optimizer = adam(model)
    seen = []
    with watch(model, optimizer):
        for x, _ in batches(2):
            output = model(x)
            output.register_hook(lambda gradient: seen.append(gradient.shape))
            output.grad_fn.register_prehook(lambda gradients: seen.append(len(gradients)))
            assert len(output._backward_hooks) == 1
            output.sum().backward()
            optimizer.step()
    assert len(seen) == 4
    assert recorded().phase("backward").step.tolist() == [0, 1]


def test_wrong_arguments_raise_at_once():
    model = small_model()
    with pytest.raises(TypeError, match="model must be Module, not int"):
        watch(3)
    with pytest.raises(TypeError, match="optimizer must be Optimizer"):
        watch(model, [3])
    with pytest.raises(TypeError, match="loader must be DataLoader"):
        watch(model, loader=[1, 2])
    with pytest.raises(ValueError, match="every must be positive"):
        watch(model, every=0)


def test_without_torch_the_import_says_what_to_install(without):
    result = without("nilometer.torch", "torch")
    assert "ImportError: nilometer.torch needs PyTorch: pip install torch" in result.stderr


def test_a_distributed_model_is_watched_from_outside(recorded):
    import torch.distributed as dist

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        model = torch.nn.parallel.DistributedDataParallel(small_model())
        optimizer = adam(model)
        with watch(model, optimizer):
            train(model, optimizer, batches(3))
    finally:
        dist.destroy_process_group()
    run = recorded()
    for name in ("forward", "backward", "optimizer"):
        assert run.phase(name).step.tolist() == [0, 1, 2], name


def test_its_own_examples_hold():
    import doctest

    import nilometer.torch

    assert doctest.testmod(nilometer.torch).failed == 0
    assert doctest.testmod(nilometer.torch).attempted > 5
