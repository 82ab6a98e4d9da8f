"""The tracker in a real Accelerator."""

import pytest
import torch
from accelerate import Accelerator

import nilometer
from nilometer.integrations.accelerate import NiloTracker
from nilometer.torch import watch


def train(accelerator, steps=5):
    model = torch.nn.Linear(3, 1)
    model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
    losses = []
    with watch(model, optimizer, step=1):
        for step in range(1, steps + 1):
            loss = model(torch.ones(4, 3)).square().mean()
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
            accelerator.log({"loss": loss, "eval": {"accuracy": step / 10}}, step=step)
    return losses


def test_what_is_logged_is_in_the_run():
    tracker = NiloTracker("tiny")
    accelerator = Accelerator(cpu=True, log_with=[tracker])
    accelerator.init_trackers("project", config={"learning_rate": 0.1, "model": {"layers": 2}})
    losses = train(accelerator)
    path = tracker.tracker.path
    accelerator.end_training()
    run = nilometer.read_run(path)
    assert run.description["name"] == "tiny"
    assert run.series("loss").step.tolist() == [1, 2, 3, 4, 5]
    assert run.series("loss").value.tolist() == pytest.approx(losses)
    assert run.series("eval/accuracy").value.tolist() == [0.1, 0.2, 0.3, 0.4, 0.5]
    assert run.config == {"learning_rate": 0.1, "model/layers": 2}
    assert run.phase("optimizer").step.tolist() == [1, 2, 3, 4, 5]
    assert run.description["ending"]["exit_code"] == 0


def test_the_run_is_at_hand_by_the_trackers_name():
    accelerator = Accelerator(cpu=True, log_with=[NiloTracker()])
    accelerator.init_trackers("project")
    assert isinstance(accelerator.get_tracker("nilo", unwrap=True), nilometer.Run)
    accelerator.end_training()


def test_a_run_that_was_there_before_stays_open():
    run = nilometer.init()
    accelerator = Accelerator(cpu=True, log_with=[NiloTracker("tiny")])
    accelerator.init_trackers("project")
    accelerator.log({"loss": 1.0}, step=1)
    accelerator.end_training()
    assert not run.finished
    run.log({"loss": 2.0}, step=2)
    run.finish()
    assert nilometer.read_run(run.path).series("loss").value.tolist() == [1.0, 2.0]


def test_trouble_does_not_stop_the_training(monkeypatch):
    monkeypatch.setenv("NILO_STRICT", "0")
    accelerator = Accelerator(cpu=True, log_with=[NiloTracker()])
    accelerator.init_trackers("project")
    with pytest.warns(nilometer.NilometerWarning, match="only scalars are stored"):
        accelerator.log({"loss": 1.0, "note": "text"}, step=1)
    accelerator.end_training()


def test_without_accelerate_the_import_says_what_to_install(without):
    result = without("nilometer.integrations.accelerate", "accelerate")
    assert "needs Accelerate: pip install accelerate" in result.stderr


def test_each_init_trackers_is_a_run_of_its_own():
    tracker, paths = NiloTracker("tiny"), []
    for value in (1.0, 2.0):
        accelerator = Accelerator(cpu=True, log_with=[tracker])
        accelerator.init_trackers("project", config={"value": value})
        accelerator.log({"loss": value}, step=1)
        paths.append(tracker.tracker.path)
        accelerator.end_training()
    assert paths[0] != paths[1]
    for path, value in zip(paths, (1.0, 2.0)):
        run = nilometer.read_run(path)
        assert run.series("loss").value.tolist() == [value] and run.config == {"value": value}
