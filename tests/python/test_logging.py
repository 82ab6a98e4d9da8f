"""`log` from the program's side: what goes in comes out."""

import json
import math
import random
import warnings

import numpy
import pytest

import nilometer
from nilometer import NilometerError, NilometerWarning


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A run of this process, strict, without the memory thread."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NILO_STRICT", "1")
    for name in ("NILO_RUN_DIR", "NILO_DIR", "NILO_MODE"):
        monkeypatch.delenv(name, raising=False)
    run = nilometer.init(name="test", memory=False)
    yield run
    run.finish(0)


def read(run):
    return nilometer.read_run(run.path)


def test_values_come_back_with_their_steps_and_times(run):
    for step in range(1000):
        run.log({"loss": 1 / (step + 1), "reward": step}, step=step)
    loss = read(run).series("loss")
    assert loss.value.tolist() == [1 / (step + 1) for step in range(1000)]
    assert loss.step.tolist() == list(range(1000))
    assert (numpy.diff(loss.seconds) >= 0).all()
    assert read(run).series("reward").value.tolist() == list(range(1000))


def test_what_was_sampled_over_time_says_that_it_has_no_steps(tmp_path, monkeypatch):
    monkeypatch.delenv("NILO_RUN_DIR", raising=False)
    with nilometer.init(dir=tmp_path) as run:
        run.log({"loss": 1.0}, step=0)
    recorded = read(run)
    memory = recorded.memory()
    assert len(memory.step) and set(memory.step.tolist()) == {nilometer.reading.NO_STEP} == {numpy.iinfo("int64").min}
    assert not memory.has_steps and not memory._replace(step=memory.step[:0]).has_steps
    assert recorded.series("loss").has_steps


def test_points_are_readable_before_the_end_of_the_run(run):
    run.log({"loss": 1.0}, step=0)
    assert read(run).series("loss").value.tolist() == [1.0]
    run.log({"loss": 2.0}, step=1)
    assert read(run).series("loss").value.tolist() == [1.0, 2.0]


def test_without_a_step_each_call_is_the_next(run):
    run.log({"a": 1.0})
    run.log({"a": 2.0}, step=10)
    run.log({"a": 3.0})
    assert read(run).series("a").step.tolist() == [0, 10, 11]


@pytest.mark.filterwarnings("ignore:.*the step went back")
def test_steps_that_go_back_are_kept_and_the_newest_wins(run, monkeypatch):
    monkeypatch.delenv("NILO_STRICT")
    for step, value in [(0, 1.0), (1, 2.0), (2, 3.0), (1, 20.0), (2, 30.0)]:
        run.log({"loss": value}, step=step)
    series = read(run).series("loss")
    assert series.step.tolist() == [0, 1, 2, 1, 2]
    assert series.newest.value.tolist() == [1.0, 20.0, 30.0]


def test_nested_dictionaries_are_flattened(run):
    run.log({"loss": 1.0, "eval": {"loss": 2.0, "by": {"set a": 3}}}, step=0)
    assert read(run).metrics == ["eval/by/set a", "eval/loss", "loss"]
    assert read(run).series("eval/by/set a").value.tolist() == [3.0]


def test_nan_and_infinity_are_kept(run):
    run.log({"loss": math.nan}, step=0)
    run.log({"loss": math.inf}, step=1)
    run.log({"loss": -math.inf}, step=2)
    values = read(run).series("loss").value
    assert math.isnan(values[0]) and values[1:].tolist() == [math.inf, -math.inf]


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (True, 1.0),
        (3, 3.0),
        (-(2**53), -(2.0**53)),
        (numpy.float32(0.5), 0.5),
        (numpy.float64(0.25), 0.25),
        (numpy.int64(7), 7.0),
        (numpy.bool_(True), 1.0),
        (numpy.array(1.5), 1.5),
        (numpy.array([2.5]), 2.5),
        (numpy.float16(0.5), 0.5),
    ],
)
def test_every_kind_of_number_is_stored(run, value, stored):
    run.log({"x": value}, step=0)
    run.log({"x": value, "y": 1.0}, step=1)
    assert read(run).series("x").value.tolist() == [stored, stored]


def test_decimals_and_fractions_are_numbers(run):
    import decimal
    import fractions

    run.log({"d": decimal.Decimal("0.5"), "f": fractions.Fraction(1, 4)}, step=0)
    assert read(run).series("d").value.tolist() == [0.5]
    assert read(run).series("f").value.tolist() == [0.25]


@pytest.mark.parametrize(
    ("value", "word"),
    [
        ("text", "string"),
        ([1.0], "list"),
        (numpy.zeros(3), "an array of several elements; only scalars are stored"),
        (10**400, "too large"),
        (object(), "of type object; only scalars are stored"),
    ],
)
def test_what_is_no_number_is_named_and_left_out(run, monkeypatch, value, word):
    with pytest.raises(NilometerError, match=rf'"odd".*{word}'):
        run.log({"good": 1.0, "odd": value}, step=0)
    monkeypatch.delenv("NILO_STRICT")
    with pytest.warns(NilometerWarning, match="odd"):
        run.log({"good": 2.0, "odd": value, str(id(value)): 0.0}, step=1)
    assert read(run).series("good").value.tolist() == [1.0, 2.0]
    assert "odd" not in read(run).metrics


def test_a_trouble_is_said_once_and_at_the_users_line(run, monkeypatch):
    monkeypatch.delenv("NILO_STRICT")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for step in range(5):
            run.log({"said once": "text"}, step=step)
    assert [warning.category for warning in said] == [NilometerWarning]
    assert said[0].filename == __file__


def test_none_means_not_measured_and_is_said_once(run, monkeypatch):
    monkeypatch.delenv("NILO_STRICT")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for step in range(3):
            run.log({"a": 1.0, "not measured": None}, step=step)
    assert [str(warning.message) for warning in said] == ['log: "not measured" is None; only scalars are stored']
    assert read(run).metrics == ["a"]


@pytest.mark.parametrize("nothing", [{"x": None}, {"x": "text"}, {"x": [1.0, 2.0]}, {"x": {}}, {}])
def test_a_call_with_nothing_to_store_is_no_step(run, monkeypatch, nothing):
    monkeypatch.delenv("NILO_STRICT")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for values in (nothing, {"a": 1.0}, nothing, {"a": 2.0}):
            run.log(values)
    assert read(run).series("a").step.tolist() == [0, 1]


@pytest.mark.parametrize("step", ["three", 1.5, math.nan, 10**30, [1]])
def test_a_step_that_is_none_is_said(run, monkeypatch, step):
    with pytest.raises(NilometerError, match="step"):
        run.log({"x": 1.0}, step=step)
    monkeypatch.delenv("NILO_STRICT")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run.log({"x": 1.0}, step=step)
    assert read(run).series("x").value.tolist() == [1.0]


@pytest.mark.parametrize("step", [0, -5, numpy.int64(3), 4.0, numpy.float32(5), 2**62, -(2**63) + 1])
def test_whole_numbers_of_any_kind_are_steps(run, step):
    run.log({"x": 1.0}, step=step)
    assert read(run).series("x").step.tolist() == [int(step)]


def test_names_in_any_script_and_of_any_shape(run):
    names = ["損失", "perte/entraînement", "😀", "a b", "новый\nрядок", "x" * 512, "tab\t", "\x1b[31mred"]
    for step in range(2):
        run.log({name: float(index) for index, name in enumerate(names)}, step=step)
    assert read(run).metrics == sorted(names)
    for index, name in enumerate(names):
        assert read(run).series(name).value.tolist() == [index, index]


def test_keys_that_are_no_strings_become_strings(run):
    run.log({1: 2.0, ("a", 1): 3.0}, step=0)
    run.log({1: 2.0, ("a", 1): 3.0}, step=1)
    assert read(run).metrics == ["('a', 1)", "1"]


def test_too_long_and_empty_names_are_refused(run):
    with pytest.raises(NilometerError, match="longer than 512"):
        run.log({"x" * 513: 1.0}, step=0)
    with pytest.raises(NilometerError, match="empty"):
        run.log({"": 1.0}, step=0)


def test_a_million_names_are_refused_with_the_limit(run, monkeypatch):
    monkeypatch.delenv("NILO_STRICT")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for start in range(0, 1_000_000, 1000):
            run.log({f"name {number}": 1.0 for number in range(start, start + 1000)}, step=start)
    assert len(said) == 1 and "10000 different names" in str(said[0].message)
    assert len(read(run).metrics) == 10_000
    assert run.dropped == 990, "each call that lost a value counts"
    run.log({"name 5": 2.0}, step=1)
    assert read(run).series("name 5").value.tolist() == [1.0, 2.0]


def test_ever_new_sets_of_names_stay_readable(run):
    chosen = random.Random(7)
    names = [f"m{number}" for number in range(40)]
    expected = {name: [] for name in names}
    for step in range(3000):
        row = {name: chosen.random() for name in chosen.sample(names, 8)}
        run.log(row, step=step)
        for name, value in row.items():
            expected[name].append(value)
    for name in names:
        assert read(run).series(name).value.tolist() == expected[name]


def test_a_row_of_five_thousand_values(run):
    row = {f"v{number}": float(number) for number in range(5000)}
    run.log(row, step=0)
    assert len(read(run).metrics) == 5000
    assert read(run).series("v4999").value.tolist() == [4999.0]


def test_values_that_are_no_dictionary(run):
    import collections
    import types

    run.log(collections.OrderedDict(a=1.0), step=0)
    run.log(types.MappingProxyType({"a": 2.0}), step=1)
    run.log(collections.UserDict(a=3.0), step=2)
    assert read(run).series("a").value.tolist() == [1.0, 2.0, 3.0]
    for wrong in (None, 3.0, [("a", 1.0)], "a"):
        with pytest.raises(NilometerError, match="not a dictionary"):
            run.log(wrong, step=0)


def test_a_value_that_logs_while_it_is_read(run):
    class Sly:
        def __float__(self):
            run.log({"inner": 1.0}, step=0)
            return 2.0

    run.log({"outer": Sly()}, step=0)
    assert read(run).metrics == ["inner", "outer"]


def test_a_value_that_raises_does_not_stop_the_others(run, monkeypatch):
    class Broken:
        def __float__(self):
            raise RuntimeError("no")

    monkeypatch.delenv("NILO_STRICT")
    with pytest.warns(NilometerWarning, match="Broken"):
        run.log({"a": 1.0, "b": Broken()}, step=0)
    assert read(run).series("a").value.tolist() == [1.0]


def test_marks_settings_and_summary(run):
    run.mark("epoch 1")
    run.mark(2)
    run.config({"lr": 0.1, "model": {"layers": 2}}, batch=8)
    run.log({"loss": 1.0}, step=0)
    recorded = read(run)
    assert [text for _, text in recorded.marks] == ["epoch 1", "2"]
    assert recorded.config == {"lr": 0.1, "model/layers": 2, "batch": 8}
    run.finish(0)
    assert recorded.description["ending"]["status"] == "exited"
    assert recorded.description["mode"] == "python"
    assert recorded.description["name"] == "test"


def test_after_the_end_nothing_is_stored_and_it_is_said(run):
    run.log({"loss": 1.0}, step=0)
    run.finish(0)
    run.finish(0)
    with pytest.raises(NilometerError, match="finished"):
        run.log({"loss": 2.0}, step=1)
    assert read(run).series("loss").value.tolist() == [1.0]


def test_a_notebook_shows_a_picture_and_a_table(run):
    run.log({"loss & <more>": 1.5}, step=0)
    text = run._repr_html_()
    assert "<svg" in text and "loss &amp; &lt;more&gt;" in text and "1.5" in text


@pytest.mark.parametrize("format", ["csv", "json", "parquet"])
def test_a_run_is_exported_from_python(run, tmp_path, format):
    for step in range(10):
        run.log({"loss": step / 2}, step=step)
    target = tmp_path / f"out.{format}"
    assert read(run).export(target) == target
    assert read(run).export(tmp_path / "other", format=format).stat().st_size == target.stat().st_size
    if format == "csv":
        assert target.read_text().count("loss") == 10
    if format == "json":
        assert json.loads(target.read_text())["schema"] == "nilo.recording/1"
    if format == "parquet":
        import pyarrow.parquet

        table = pyarrow.parquet.read_table(target)
        values = [row["value"] for row in table.to_pylist() if row["column"] == "loss"]
        assert values == [step / 2 for step in range(10)]
    assert not list(tmp_path.glob("*.tmp"))


def test_a_run_is_exported_to_tensorboard_from_python(run, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for step in range(10):
        run.log({"loss": step / 2}, step=step)
    read(run).export(tmp_path / "events", format="tensorboard")
    events = EventAccumulator(str(tmp_path / "events"))
    events.Reload()
    assert [(event.step, event.value) for event in events.Scalars("loss")] == [(step, step / 2) for step in range(10)]


def test_an_export_that_cannot_be_is_said(run, tmp_path):
    run.log({"loss": 1.0}, step=0)
    with pytest.raises(ValueError, match="format"):
        read(run).export(tmp_path / "out.xyz")
    with pytest.raises(ValueError, match="xlsx"):
        read(run).export(tmp_path / "out", format="xlsx")
    with pytest.raises(OSError):
        read(run).export(tmp_path / "no such folder" / "out.csv")


@pytest.mark.filterwarnings("ignore:.*the step went back")
def test_threads_log_at_once(run, monkeypatch):
    monkeypatch.delenv("NILO_STRICT")
    import threading

    def work(number):
        for step in range(2000):
            run.log({"thread": float(number), "value": float(step)}, step=step)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    values = read(run).series("thread").value.tolist()
    assert [values.count(float(number)) for number in range(8)] == [2000] * 8


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"name": 3}, "name"),
        ({"interval": "fast"}, "interval"),
        ({"interval": 0}, "interval"),
        ({"interval": -1.0}, "interval"),
        ({"tags": ["a"]}, "tags"),
    ],
)
def test_wrong_arguments_raise_at_once_and_name_the_argument(arguments, word):
    with pytest.raises((TypeError, ValueError), match=word):
        nilometer.init(**arguments)


def test_a_name_that_was_never_logged_is_said(run):
    run.log({"loss": 1.0}, step=0)
    with pytest.raises(KeyError, match="lsos.*loss"):
        read(run).series("lsos")
    with pytest.raises(KeyError, match="nosuch"):
        read(run).phase("nosuch")


@pytest.mark.parametrize("values, name", [({"a": {"b": 1.0}, "a/b": 2.0}, "a/b"), ({1: 1.0, "1": 2.0}, "1")])
def test_one_name_twice_in_a_call_is_one_value_and_said(run, values, name):
    with pytest.raises(NilometerError, match=f'"{name}" appears twice'):
        run.log(values, step=0)
    assert read(run).series(name).value.tolist() == [2.0]
    assert read(run).summary()["metrics"][0]["count"] == 1
    tracker = nilometer.MetricTracker()
    with pytest.raises(NilometerError, match=f'"{name}" appears twice'):
        tracker.update_batch(values)
