"""nilometer.torch.watch: the phases that it finds."""

import pytest
import torch
from torch_training import adam, batches, small_model, train

import nilometer
from nilometer.torch import watch


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
    # Steps 5 to 30 stand behind the three that were timed.
    phases = {phase["name"]: phase for phase in run.summary()["phases"]}
    assert (phases["forward"]["count"], phases["forward"]["represented_count"]) == (3, 26)
    rows = run.phase("forward").value.tolist()
    assert phases["forward"]["total_secs"] == pytest.approx(6 * rows[0] + 10 * rows[1] + 10 * rows[2])


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


def test_after_a_removed_watch_the_program_counts_by_itself_again(recorded):
    model = small_model()
    optimizer = adam(model)
    with watch(model, optimizer):
        for batch in batches(3):
            train(model, optimizer, [batch])
            nilometer.log({"loss": 1.0})
    for _ in range(3):
        nilometer.log({"loss": 2.0})
    assert recorded().series("loss").step.tolist() == [0, 1, 2, 3, 4, 5]


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


def test_what_is_held_back_is_stored_when_the_run_ends(recorded):
    model = small_model()
    handle = watch(model, adam(model))
    model(batches(1)[0][0]).sum().backward()
    run = recorded()
    assert run.phase("forward").step.tolist() == [0]
    assert run.phase("backward").step.tolist() == [0]
    handle.remove()


@pytest.mark.parametrize("wrong", [5, "adam", [5]])
def test_what_is_no_optimizer_is_refused_by_name(wrong):
    with pytest.raises(TypeError, match="^optimizer must be Optimizer|^optimizer must be an Optimizer or several of them, not int$"):
        watch(small_model(), wrong)
