"""`nilo snapshot why` where it depends on the limit whether a setting would have helped, which a snapshot does not say."""

import json
import pickle

MIB = 1 << 20


def events(asked):
    """Seven segments of 512 MiB, then halves of them, every other of which is freed; and a request that fails. On an H200, 4 GiB were allowed."""
    frames = [{"filename": "train.py", "line": 7, "name": "take"}]

    def event(action, address, size):
        place = "device_free" if action == "oom" else "addr"
        return {"action": action, place: address, "size": size, "stream": 0, "time_us": 1, "frames": frames}

    def freed(address, size):
        return [event("free_requested", address, size), event("free_completed", address, size)]

    places = [(1 << 40) + (number << 30) for number in range(7)]
    trace = []
    for place in places:
        trace += [event("segment_alloc", place, 512 * MIB), event("alloc", place, 512 * MIB)]
    for place in places:
        trace += freed(place, 512 * MIB)
    for place in places:
        trace += [event("alloc", place, 256 * MIB), event("alloc", place + 256 * MIB, 256 * MIB)]
    for place in places:
        trace += freed(place + 256 * MIB, 256 * MIB)
    return [*trace, event("oom", 100 << 30, asked)]


def why(nilo, asked):
    (nilo.folder / "oom.pickle").write_bytes(pickle.dumps({"segments": [], "device_traces": [events(asked)]}))
    answer = nilo("snapshot", "why", "oom.pickle", "--format", "json")
    assert answer.returncode == 1, answer.stderr
    (explained,) = json.loads(answer.stdout)["ooms"]
    return explained, nilo("snapshot", "why", "oom.pickle").stdout


def test_where_the_limit_decides_it_is_said(nilo):
    explained, text = why(nilo, 600 * MIB)
    assert explained["expandable_segments_would_serve"] is None
    assert explained["depends_on_limit"] == {"at_least_bytes": 3584 * MIB, "below_bytes": 4184 * MIB}
    assert "(replayed): depends on the process's limit, which lies between 3.50 GiB and 4.09 GiB" in text
    assert "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: in a replay of this trace the allocation is served if the process may use almost 4.09 GiB" in text


def test_a_request_larger_than_what_is_free_gets_no_setting_as_advice(nilo):
    explained, text = why(nilo, 3000 * MIB)
    assert explained["cause"] == "too-much-in-use" and explained["expandable_segments_would_serve"] is None
    assert "Set PYTORCH_CUDA_ALLOC_CONF" not in text and "use a smaller batch" in text
