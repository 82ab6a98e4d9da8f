"""`record_history` with a made-up allocator: what it starts and stops, and the snapshot where an allocation fails."""

import functools
import inspect
import pickle
import sys
import warnings

import pytest
from made_up_torch import MadeUpTorch, OutOfMemoryError

import nilometer
from nilometer import _snapshot_file, _torch_history, _trouble
from nilometer._torch_history import record_history


@pytest.fixture
def use(monkeypatch):
    """Puts a made-up torch in place; whatever is recorded ends with the test."""
    monkeypatch.setattr(_torch_history, "_open", [])
    monkeypatch.setattr(_torch_history, "_is_observed", False)
    monkeypatch.setattr(_torch_history, "_failures", 0)
    monkeypatch.setattr(_trouble, "_said", set())

    def put(**options):
        torch = MadeUpTorch(**options)
        monkeypatch.setitem(sys.modules, "torch", torch)
        return torch

    return put


def fail(torch):
    with pytest.raises(OutOfMemoryError):
        torch.alloc(torch.limit + 1)


def attached(run):
    folder = run.path / "attachments"
    return sorted(path.name for path in folder.glob("*.pickle")) if folder.exists() else []


def load(run, name):
    return pickle.loads((run.path / "attachments" / name).read_bytes())


def test_the_history_is_bounded_and_ends_with_the_block(use, run):
    torch = use()
    with record_history(max_entries=5, run=run) as recording:
        assert recording.is_recording
        for _ in range(20):
            torch.alloc(1)
        assert len(torch.events) == 5
    assert torch.calls == [("all", "python", 5), (None, "all", 1 << 62)]
    assert not recording.is_recording


def test_a_failure_is_attached_before_its_exception_unwinds(use, run):
    torch = use()
    with record_history(run=run) as recording:
        torch.alloc(1000)
        seen = []
        torch.observers.append(lambda *_: seen.extend(attached(run)))
        fail(torch)
    assert seen == attached(run) == [recording.failure_snapshot]
    assert [event["action"] for event in load(run, seen[0])["device_traces"][0]] == ["alloc", "oom"]


def test_only_the_first_failure_is_attached(use, run):
    torch = use()
    with record_history(run=run):
        for _ in range(5):
            fail(torch)
        assert len(attached(run)) == 1
    fail(torch)
    assert len(attached(run)) == 1, "nothing is stored after stop()"


def test_each_recording_stores_a_failure_of_its_own(use, run):
    torch = use()
    for _ in range(3):
        with record_history(run=run):
            fail(torch)
    assert len(attached(run)) == 3
    assert len(torch.observers) == 1, "they cannot be taken off, so there is one for all"


def test_the_hooks_are_given_the_name_of_the_snapshot_and_take_none(use, run):
    torch = use()
    assert _torch_history.snapshot_of_failure() is None
    with record_history(run=run) as recording:
        # The hooks' observer comes first: CUDA had started before.
        name = _torch_history.snapshot_of_failure()
        fail(torch)
    assert name == recording.failure_snapshot and attached(run) == [name]


def test_a_failure_goes_to_the_current_run_unless_one_is_named(use, run):
    torch = use()
    with record_history() as recording:
        fail(torch)
    assert attached(run) == [recording.failure_snapshot]


def test_what_the_program_records_itself_is_never_switched_off(use, run):
    torch = use()
    torch.cuda.memory._record_memory_history(max_entries=7)
    with record_history(run=run):
        assert torch.history == 7
        fail(torch)
    assert torch.history == 7 and len(torch.calls) == 1
    assert len(attached(run)) == 1


def test_what_the_program_begins_meanwhile_goes_on_after_the_end(use, run):
    torch = use()
    original = torch.cuda.memory._record_memory_history
    with record_history(run=run):
        assert inspect.signature(torch.cuda.memory._record_memory_history) == inspect.signature(original)
        torch.cuda.memory._record_memory_history(max_entries=7)
    assert torch.history == 7
    assert torch.cuda.memory._record_memory_history is original


def test_somebody_elses_wrapper_stays(use, run):
    torch = use()
    with record_history(run=run):
        inner = torch.cuda.memory._record_memory_history
        theirs = torch.cuda.memory._record_memory_history = functools.wraps(inner)(lambda *args, **kwargs: inner(*args, **kwargs))
    assert torch.cuda.memory._record_memory_history is theirs
    theirs(max_entries=9)
    assert torch.history == 9


def test_a_history_that_the_program_does_not_bound_is_cut_to_its_newest_events(use, run):
    torch = use()
    torch.cuda.memory._record_memory_history()
    for _ in range(50):
        torch.alloc(1)
    with record_history(max_entries=10, run=run) as recording:
        fail(torch)
    events = load(run, recording.failure_snapshot)["device_traces"][0]
    assert len(events) == 10 and events[-1]["action"] == "oom"


def test_cuda_is_not_started_and_recording_begins_with_it(use, run):
    torch = use(is_started=False)
    with record_history(run=run) as recording:
        assert torch.calls == [] and not recording.is_recording
        with pytest.warns(_trouble.NilometerWarning, match="has not used CUDA yet"):
            assert recording.snapshot() is None
        torch.start()
        assert torch.history == 100_000 and recording.is_recording


def test_a_recording_that_ended_before_cuda_started_begins_nothing(use, run):
    torch = use(is_started=False)
    record_history(run=run).stop()
    torch.start()
    assert torch.calls == [] and torch.observers == []


def test_an_older_signature_is_called_by_its_own_names(use, run):
    torch = use(is_legacy=True)
    with record_history(max_entries=33, run=run):
        assert torch.calls == [(True, True, 33)]
    assert torch.calls[-1][0] is False


@pytest.mark.parametrize(
    ("name", "sentence", "is_recorded"),
    [
        ("_record_memory_history", "cannot bound the history of its allocator; no history is recorded", False),
        ("_cuda_isHistoryEnabled", "cannot tell whether the program records that history already; no history is recorded", False),
        ("_snapshot", "cannot take a snapshot; no history is recorded", False),
        ("_cuda_attach_out_of_memory_observer", "cannot tell of an allocation that fails; the rest is recorded", True),
    ],
)
def test_a_torch_without_a_private_function_says_so_once_and_the_rest_goes_on(use, run, name, sentence, is_recorded):
    torch = use(without=[name])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(3):
            with record_history(run=run) as recording:
                assert recording.is_recording == is_recorded
                fail(torch)
    assert [str(warning.message) for warning in said] == [f"record_history: this PyTorch {sentence}"]
    assert said[0].filename == __file__


def test_private_functions_that_raise_break_nothing(use, run):
    torch = use()

    def broken(**settings):
        raise RuntimeError("not with this allocator")

    broken.__signature__ = inspect.signature(torch.cuda.memory._record_memory_history)
    torch.cuda.memory._record_memory_history = broken
    with pytest.warns(_trouble.NilometerWarning, match="not with this allocator"), record_history(run=run):
        fail(torch)


def test_without_cuda_it_says_so_and_does_nothing(use, run):
    torch = use(has_cuda=False)
    with pytest.warns(_trouble.NilometerWarning, match="there is no CUDA device; nothing is recorded"):
        recording = record_history(run=run)
    with recording, pytest.warns(_trouble.NilometerWarning, match="no CUDA allocator to take one of"):
        assert recording.snapshot() is None
    assert torch.calls == []


def test_a_snapshot_on_request_is_an_attachment_or_a_file(use, run, tmp_path):
    torch = use()
    with record_history(run=run) as recording:
        torch.alloc(10)
        first, second = recording.snapshot(), recording.snapshot("before.pickle")
        path = recording.snapshot(path=tmp_path / "own.pickle")
    assert first != second and sorted([first, second]) == attached(run)
    assert path == str(tmp_path / "own.pickle")
    content = (tmp_path / "own.pickle").read_bytes()
    assert content[:2] == b"\x80\x04", "pytorch.org/memory_viz reads no later protocol"
    assert pickle.loads(content) == load(run, first)


def test_a_snapshot_that_is_too_large_is_not_stored(use, run, monkeypatch):
    monkeypatch.setattr(_snapshot_file, "LARGEST_BYTES", 1000)
    torch = use()
    with record_history(run=run) as recording:
        for _ in range(100):
            torch.alloc(1)
        with pytest.warns(_trouble.NilometerWarning, match="larger than 256 MiB and not stored"):
            fail(torch)
        with pytest.raises(nilometer.NilometerError):
            recording.snapshot()
    assert attached(run) == [] and recording.failure_snapshot is None


def test_a_failure_after_the_run_has_ended_keeps_its_exception(use, run):
    torch = use()
    with record_history(run=run):
        run.finish(0)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            fail(torch)


@pytest.mark.parametrize("wrong", [{"max_entries": 0}, {"max_entries": "many"}, {"stacks": "c++"}])
def test_wrong_arguments_raise_at_once(use, run, wrong):
    use()
    with pytest.raises(ValueError):
        record_history(run=run, **wrong)
