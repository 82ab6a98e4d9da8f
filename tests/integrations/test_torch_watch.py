"""nilometer.torch.watch: what it finds, and that nothing else changes."""

import copy
import gc
import io
import itertools
import subprocess
import sys
import weakref

import pytest
import torch
from conftest import subprocess_environment

import nilometer
from nilometer.torch import watch


def small_model():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Dropout(0.2), torch.nn.Tanh(), torch.nn.Linear(16, 2))


def batches(count, size=4):
    generator = torch.Generator().manual_seed(5)
    return [(torch.randn(size, 6, generator=generator), torch.randn(size, 2, generator=generator)) for _ in range(count)]


def train(model, optimizer, data, accumulate=1):
    for index, (x, y) in enumerate(data):
        torch.nn.functional.mse_loss(model(x), y).backward()
        if (index + 1) % accumulate == 0:
            optimizer.step()
            optimizer.zero_grad()


def adam(model):
    return torch.optim.AdamW(model.parameters(), lr=0.01)


def test_every_step_has_its_four_phases_under_its_number(recorded):
    model = small_model()
    optimizer = adam(model)
    with watch(model, optimizer):
        train(model, optimizer, batches(5))
    run = recorded()
    assert run.phases == ["backward", "data", "forward", "optimizer"]
    for name in ("forward", "backward", "optimizer"):
        assert run.phase(name).step.tolist() == [0, 1, 2, 3, 4], name
        assert (run.phase(name).value > 0).all()
    # Before the first forward nobody knows when the waiting began.
    assert run.phase("data").step.tolist() == [1, 2, 3, 4]
    assert run.throughput("samples").value.tolist() == [4, 8, 12, 16, 20]
    assert run.throughput("batches").step.tolist() == [0, 1, 2, 3, 4]


def test_phases_measure_what_they_name(recorded):
    """Each part of the loop sleeps for a while; its phase is as long at least."""
    import time

    pause = {"forward": 0.02, "backward": 0.04, "data": 0.06, "optimizer": 0.03}

    class Slow(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            time.sleep(pause["forward"])
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            time.sleep(pause["backward"])
            return gradient

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(6, 2)

        def forward(self, x):
            return self.inner(Slow.apply(x.requires_grad_()))

    # Once a plain SGD was made, its `step` has hooks of its own, within those of the class below.
    torch.optim.SGD(small_model().parameters())

    class SlowSGD(torch.optim.SGD):
        def step(self, closure=None):
            time.sleep(pause["optimizer"])
            return super().step(closure)

    model = Model()
    optimizer = SlowSGD(model.parameters(), lr=0.1)
    with watch(model, optimizer):
        for x, _ in batches(2):
            time.sleep(pause["data"])
            model(x).sum().backward()
            optimizer.step()
    run = recorded()
    assert run.phase("optimizer").step.tolist() == [0, 1]
    for name, seconds in pause.items():
        assert (run.phase(name).value >= seconds).all(), name


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


def test_optimizers_that_step_within_backward_end_the_step(recorded):
    model = small_model()
    optimizers = {parameter: torch.optim.SGD([parameter], lr=0.1) for parameter in model.parameters()}

    def update(parameter):
        optimizers[parameter].step()
        parameter.grad = None

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(update)
    with watch(model):
        for x, y in batches(3):
            torch.nn.functional.mse_loss(model(x), y).backward()
    run = recorded()
    assert run.phase("forward").step.tolist() == [0, 1, 2]
    assert run.phase("backward").step.tolist() == [0, 1, 2]
    assert "optimizer" not in run.phases
    assert run.throughput("samples").value.tolist() == [4, 8, 12]


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


def test_gradient_accumulation_belongs_to_one_step(recorded):
    model = small_model()
    optimizer = adam(model)
    with watch(model, optimizer):
        train(model, optimizer, batches(6), accumulate=3)
    run = recorded()
    assert run.phase("forward").step.tolist() == [0, 0, 0, 1, 1, 1]
    assert run.phase("backward").step.tolist() == [0, 0, 0, 1, 1, 1]
    assert run.phase("data").step.tolist() == [0, 0, 1, 1, 1]
    assert run.phase("optimizer").step.tolist() == [0, 1]
    assert run.throughput("samples").value.tolist() == [12, 24]


def test_evaluation_is_neither_training_nor_waiting_for_data(recorded):
    model = small_model()
    optimizer = adam(model)
    data = batches(2)
    with watch(model, optimizer):
        train(model, optimizer, data)
        model.eval()
        with torch.no_grad():
            for x, _ in data:
                model(x)
        with torch.inference_mode():
            model(data[0][0])
        # Gradients are on, but nobody asks for them.
        model(data[0][0])
        model.train()
        train(model, optimizer, data)
    run = recorded()
    assert len(run.phase("inference").value) == 3
    assert run.phase("optimizer").step.tolist() == [0, 1, 2, 3]
    assert run.phase("data").step.tolist() == [1, 3]
    assert run.throughput("samples").value.tolist() == [4, 8, 12, 16]


def test_an_exception_in_forward_passes_and_the_next_step_is_timed(recorded):
    class Model(torch.nn.Linear):
        fails = False

        def forward(self, x):
            if self.fails:
                raise ZeroDivisionError("on purpose")
            return super().forward(x)

    model = Model(6, 2)
    optimizer = adam(model)
    with watch(model, optimizer):
        train(model, optimizer, batches(1))
        model.fails = True
        with pytest.raises(ZeroDivisionError, match="on purpose"):
            model(batches(1)[0][0])
        model.fails = False
        train(model, optimizer, batches(2))
    run = recorded()
    assert run.phase("forward").step.tolist() == [0, 1, 2]
    assert run.phase("backward").step.tolist() == [0, 1, 2]


def test_an_interrupted_forward_and_a_failed_backward_leave_no_trace(recorded):
    class Breaking(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            raise ArithmeticError("on purpose")

    class Model(torch.nn.Linear):
        trouble = None

        def forward(self, x):
            if self.trouble == "interrupt":
                raise KeyboardInterrupt
            return Breaking.apply(super().forward(x)) if self.trouble == "backward" else super().forward(x)

    model = Model(6, 2)
    optimizer = adam(model)
    x = batches(1)[0][0]
    with watch(model, optimizer):
        model.trouble = "interrupt"
        with pytest.raises(KeyboardInterrupt):
            model(x)
        model.trouble = None
        train(model, optimizer, batches(1))
        model.trouble = "backward"
        with pytest.raises(ArithmeticError, match="on purpose"):
            model(x).sum().backward()
        model.trouble = None
        train(model, optimizer, batches(2))
    run = recorded()
    assert run.phase("optimizer").step.tolist() == [0, 1, 2]
    assert run.phase("backward").step.tolist()[-2:] == [1, 2]


def test_shared_nested_and_recursive_modules_count_once(recorded):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.shared = torch.nn.Linear(6, 6)
            self.parts = torch.nn.ModuleList([self.shared, self.shared, torch.nn.Sequential(self.shared)])

        def forward(self, x, depth=2):
            if depth:
                return self(x, depth - 1)
            for part in self.parts:
                x = part(x)
            return x

    model = Model()
    optimizer = adam(model)
    with watch(model, optimizer):
        for x, _ in batches(3):
            model(x).sum().backward()
            optimizer.step()
    run = recorded()
    assert run.phase("forward").step.tolist() == [0, 1, 2]
    assert run.throughput("samples").value.tolist() == [4, 8, 12]


def test_tokens_are_counted_where_the_input_is_a_table_of_whole_numbers(recorded):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = torch.nn.Embedding(10, 4)

        def forward(self, input_ids, labels=None):
            return {"loss": self.embed(input_ids).mean(), "logits": None}

    model = Model()
    optimizer = adam(model)
    with watch(model, optimizer):
        for _ in range(2):
            model(input_ids=torch.zeros(3, 8, dtype=torch.int64))["loss"].backward()
            optimizer.step()
    run = recorded()
    assert run.throughput("samples").value.tolist() == [3, 6]
    assert run.throughput("tokens").value.tolist() == [24, 48]
    assert len(run.phase("backward").value) == 2


def test_the_optimizer_is_found_when_it_is_not_named(recorded):
    model, other = small_model(), small_model()
    halves = list(model.parameters())
    pair = [torch.optim.SGD(halves[:2], lr=0.1), torch.optim.Adam(halves[2:], lr=0.1)]
    stranger = adam(other)
    with watch(model):
        for x, y in batches(3):
            torch.nn.functional.mse_loss(model(x), y).backward()
            torch.nn.functional.mse_loss(other(x), y).backward()
            for optimizer in (*pair, stranger):
                optimizer.step()
    run = recorded()
    # Two optimizers end one step.
    assert run.phase("optimizer").step.tolist() == [0, 0, 1, 1, 2, 2]
    assert run.phase("forward").step.tolist() == [0, 1, 2]
    assert run.throughput("samples").value.tolist() == [4, 8, 12]


def test_a_closure_is_not_the_optimizers_time(recorded):
    import time

    model = small_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watch(model, optimizer):
        for x, y in batches(3):

            def closure(x=x, y=y):
                optimizer.zero_grad()
                loss = torch.nn.functional.mse_loss(model(x), y)
                time.sleep(0.05)
                loss.backward()
                return loss

            optimizer.step(closure)
    run = recorded()
    assert run.phase("forward").step.tolist() == [0, 1, 2]
    assert run.phase("optimizer").step.tolist() == [0, 1, 2]
    assert run.phase("optimizer").value.min() < 0.05


def test_with_a_loader_data_is_what_the_loader_took(recorded):
    import time

    class Slow(torch.utils.data.Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, index):
            time.sleep(0.01)
            return torch.ones(6), torch.ones(2)

    loader = torch.utils.data.DataLoader(Slow(), batch_size=4)
    model = small_model()
    optimizer = adam(model)
    with watch(model, optimizer, loader=loader):
        for _ in range(2):
            train(model, optimizer, loader)
    assert "_get_iterator" not in vars(loader)
    assert len(list(loader)) == 2
    run = recorded()
    assert run.phase("data").step.tolist() == [0, 1, 2, 3]
    assert (run.phase("data").value >= 0.04).all()


def test_a_loader_with_workers_still_works(recorded):
    data = torch.utils.data.TensorDataset(torch.ones(8, 6), torch.ones(8, 2))
    loader = torch.utils.data.DataLoader(data, batch_size=4, num_workers=1, persistent_workers=True)
    model = small_model()
    optimizer = adam(model)
    with watch(model, optimizer, loader=loader):
        for _ in range(2):
            train(model, optimizer, loader)
    assert len(recorded().phase("data").value) == 4


def test_every_tenth_step_is_recorded_and_every_sample_counted(recorded):
    model = small_model()
    optimizer = adam(model)
    with watch(model, optimizer, every=10, step=5):
        train(model, optimizer, batches(30))
    run = recorded()
    assert run.phase("forward").step.tolist() == [10, 20, 30]
    assert run.phase("data").step.tolist() == [10, 20, 30]
    assert run.throughput("samples").value[-1] == 120


def test_a_removed_watch_records_nothing_more(recorded):
    model = small_model()
    optimizer = adam(model)
    handle = watch(model, optimizer)
    train(model, optimizer, batches(2))
    output = model(batches(1)[0][0])
    handle.remove()
    handle.remove()
    output.sum().backward()
    train(model, optimizer, batches(2))
    assert not model._forward_hooks and not model._forward_pre_hooks
    run = recorded()
    assert run.phase("optimizer").step.tolist() == [0, 1]
    assert run.phase("backward").step.tolist() == [0, 1]


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


def test_a_graph_that_is_used_twice_counts_its_samples_once(recorded):
    model = small_model()
    optimizer = adam(model)
    with watch(model, optimizer):
        loss = model(batches(1)[0][0]).sum()
        loss.backward(retain_graph=True)
        loss.backward()
        optimizer.step()
    run = recorded()
    assert len(run.phase("backward").value) == 2
    assert run.throughput("samples").value.tolist() == [4]


def test_checkpointed_layers_and_double_backward_work(recorded):
    from torch.utils.checkpoint import checkpoint

    class Model(torch.nn.Sequential):
        def forward(self, x):
            return checkpoint(super().forward, x, use_reentrant=False)

    model = Model(*small_model())
    optimizer = adam(model)
    with watch(model, optimizer):
        x = batches(1)[0][0].requires_grad_()
        (gradient,) = torch.autograd.grad(model(x).pow(2).sum(), x, create_graph=True)
        gradient.pow(2).sum().backward()
        optimizer.step()
    assert recorded().phase("optimizer").step.tolist() == [0]


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


def test_what_is_held_back_is_stored_when_the_run_ends(recorded):
    model = small_model()
    handle = watch(model, adam(model))
    model(batches(1)[0][0]).sum().backward()
    run = recorded()
    assert run.phase("forward").step.tolist() == [0]
    assert run.phase("backward").step.tolist() == [0]
    handle.remove()


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


def test_its_cost_is_printed(capsys):
    """A figure, not a claim: `pytest -s` shows it."""
    import time

    model = torch.nn.Linear(4, 1)
    x = torch.ones(2, 4)

    def seconds_a_step(steps):
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
        began = time.perf_counter()
        for _ in range(steps):
            model(x).sum().backward()
            optimizer.step()
        return (time.perf_counter() - began) / steps

    # In turns, so that a change of the machine's pace meets both; the least is the undisturbed one.
    plain, watched = [], []
    seconds_a_step(200)
    for _ in itertools.repeat(None, 8):
        plain.append(seconds_a_step(400))
        with watch(model):
            watched.append(seconds_a_step(400))
    cost = (min(watched) - min(plain)) * 1e6
    with capsys.disabled():
        print(f"\nwatch costs {cost:.1f} µs a step ({min(plain) * 1e6:.0f} µs without, {min(watched) * 1e6:.0f} with)")


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
