"""The callback in a real `fit`."""

import keras
import numpy
import pytest
from conftest import paused_secs

import nilometer
from nilometer.integrations.keras import NiloCallback


def model(**options):
    keras.utils.set_random_seed(3)
    made = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(4, activation="tanh"), keras.layers.Dense(1)])
    made.compile(optimizer=keras.optimizers.SGD(0.05), loss="mse", metrics=["mae"], **options)
    return made


def data(rows=32):
    x = numpy.random.default_rng(1).normal(size=(rows, 3)).astype("float32")
    return x, x.sum(axis=1, keepdims=True)


class Seen(keras.callbacks.Callback):
    """What Keras tells callbacks."""

    def __init__(self):
        super().__init__()
        self.losses = []

    def on_train_batch_end(self, batch, logs=None):
        self.losses.append(logs["loss"])


def fit(*callbacks, **options):
    made = model(**options)
    x, y = data()
    validation = (x[:8], y[:8])
    history = made.fit(x, y, batch_size=8, epochs=3, verbose=0, validation_data=validation, callbacks=list(callbacks))
    return made, history.history


def test_batches_and_epochs_are_in_the_run(recorded):
    seen = Seen()
    _, history = fit(NiloCallback(batch_size=8), seen)
    run = recorded()
    assert run.series("train/loss").step.tolist() == list(range(12))
    assert run.series("train/loss").value.tolist() == pytest.approx(seen.losses)
    for name, values in history.items():
        series = run.series(f"epoch/{name}")
        assert series.value.tolist() == pytest.approx(values), name
        assert series.step.tolist() == [3, 7, 11]
    assert {"loss", "mae", "val_loss", "val_mae"} <= set(history)


def test_phases_throughput_and_epochs_come_along(recorded):
    fit(NiloCallback(batch_size=8))
    run = recorded()
    assert run.phases == ["data", "evaluate", "step"]
    assert run.phase("step").step.tolist() == list(range(12))
    assert run.phase("data").step.tolist() == list(range(12))
    assert len(run.phase("evaluate").value) == 3
    assert run.throughput("samples").value.tolist() == [8 * count for count in range(1, 13)]
    # Two of three evaluations lie between steps; the clock stands still a little longer than they take.
    assert paused_secs(run) >= run.phase("evaluate").value[:2].sum()
    assert [text for _, text in run.marks] == ["epoch 1", "epoch 2", "epoch 3"]
    assert run.config["epochs"] == 3
    assert run.config["model/parameters"] == 21


def test_several_batches_in_one_call_are_counted_as_several(recorded):
    """`steps_per_execution=2`, which the torch backend lacks: the calls that other backends make."""
    callback = NiloCallback(batch_size=8)
    callback.set_model(model())
    callback.set_params({"epochs": 1, "steps": 4})
    callback.on_train_begin()
    for first in (0, 2):
        callback.on_train_batch_begin(first)
        callback.on_train_batch_end(first + 1, {"loss": 0.5})
    run = recorded()
    assert run.series("train/loss").step.tolist() == [1, 3]
    assert run.throughput("samples").value.tolist() == [16, 32]


def test_weights_are_bit_for_bit_those_of_a_bare_fit():
    plain, _ = fit()
    watched, _ = fit(NiloCallback())
    for before, after in zip(plain.get_weights(), watched.get_weights()):
        assert numpy.array_equal(before, after)


def fit_twice(callback):
    made, (x, y) = model(), data(16)
    for _ in range(2):
        made.fit(x, y, batch_size=8, epochs=1, verbose=0, callbacks=[callback])
        yield nilometer.current_run().path


def test_each_fit_is_a_run_of_its_own():
    first, second = fit_twice(NiloCallback())
    nilometer.finish()
    assert first != second
    for path in (first, second):
        assert nilometer.read_run(path).series("train/loss").step.tolist() == [0, 1]


def test_fit_goes_on_counting_in_a_run_that_is_given(recorded):
    assert len(set(fit_twice(NiloCallback(nilometer.init())))) == 1
    assert recorded().series("train/loss").step.tolist() == [0, 1, 2, 3]


def test_trouble_does_not_stop_the_training(monkeypatch):
    monkeypatch.setenv("NILO_STRICT", "0")
    monkeypatch.setattr(nilometer.Run, "log", lambda *_: 1 / 0)
    with pytest.warns(nilometer.NilometerWarning, match="NiloCallback.on_train_batch_end: ZeroDivisionError"):
        _, history = fit(NiloCallback())
    assert len(history["loss"]) == 3


def test_without_keras_the_import_says_what_to_install(without):
    result = without("nilometer.integrations.keras", "keras")
    assert "pip install keras torch" in result.stderr
