"""watch on a GPU: the GPU's own durations, under their own steps, without ever waiting for it."""

import time

import torch

from nilometer.torch import watch


def model_on_gpu(width=1024):
    torch.manual_seed(3)
    layers = [torch.nn.Linear(width, width) for _ in range(4)]
    return torch.nn.Sequential(*layers).cuda()


def train(model, optimizer, steps, x):
    for _ in range(steps):
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def test_phases_are_the_gpus_and_nothing_waits(recorded):
    model = model_on_gpu()
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.randn(4096, 1024, device="cuda")
    train(model, optimizer, 3, x)
    handle = watch(model, optimizer, every=1)
    assert handle.memory is not None
    torch.cuda.set_sync_debug_mode("error")
    try:
        train(model, optimizer, 20, x)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    handle.remove()
    run = recorded()
    assert run.phases == ["backward", "data", "forward", "optimizer"]
    for name in ("forward", "backward", "optimizer"):
        assert sorted(run.phase(name).step.tolist()) == list(range(20)), name
    # Four products of 4096 x 1024 x 1024 and their gradients: backward is about twice the work.
    forward, backward = sorted(run.phase("forward").value)[10], sorted(run.phase("backward").value)[10]
    assert 1e-5 < forward < backward
    assert run.throughput("samples").value[-1] == 20 * 4096


def test_quick_steps_are_timed_now_and_then_and_counted_always(recorded):
    model = model_on_gpu(64)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    x = torch.randn(8, 64, device="cuda")
    with watch(model, optimizer) as handle:
        train(model, optimizer, 400, x)
        time.sleep(1.1)  # the longest that a slow first look puts off the next one
        train(model, optimizer, 2, x)
        assert handle.step == 402
    run = recorded()
    steps = run.phase("forward").step.tolist()
    assert steps[0] == 0 and steps[-1] >= 400  # one of the two after the pause
    assert len(steps) < 100
    assert sorted(run.phase("backward").step.tolist()) == sorted(steps)
    assert run.throughput("samples").value[-1] == 402 * 8
    assert 1 <= len(run.torch_memory(0).value) < 100


def test_weights_are_bit_for_bit_those_of_an_unwatched_training():
    results = []
    x = torch.randn(64, 1024, generator=torch.Generator().manual_seed(1)).cuda()
    for is_watched in (False, True):
        model = model_on_gpu()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        handle = watch(model, optimizer) if is_watched else None
        train(model, optimizer, 10, x)
        if handle:
            handle.remove()
        results.append(torch.nn.utils.parameters_to_vector(model.parameters()))
    assert torch.equal(*results)


def test_a_captured_graph_is_left_alone(recorded):
    model = model_on_gpu(64)
    x = torch.randn(8, 64, device="cuda")
    with watch(model):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            model(x).sum().backward()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            model(x).sum().backward()
        graph.replay()
        torch.cuda.synchronize()
    assert len(recorded().phase("forward").value) == 1


def test_a_model_that_moves_to_the_gpu_later_is_timed_there(recorded):
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    handle = watch(model, optimizer, every=1)
    model.cuda()
    train(model, optimizer, 3, torch.ones(2, 8, device="cuda"))
    assert handle.memory is not None
    handle.remove()
    assert sorted(recorded().phase("forward").step.tolist()) == [0, 1, 2]
