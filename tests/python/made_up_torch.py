"""A torch with a CUDA allocator that only counts, for what Nilometer asks of it in the program itself."""

import inspect
import types


class OutOfMemoryError(RuntimeError):
    pass


class Event:
    def __init__(self, enable_timing=False):
        pass

    def record(self, stream=None):
        pass

    def query(self):
        return True

    def synchronize(self):
        raise AssertionError("nothing waits for the GPU")

    def elapsed_time(self, end):
        return 1.0


class MadeUpTorch(types.ModuleType):
    """One GPU of `limit` bytes. `without` names private functions that this version does not have."""

    def __init__(self, *, limit=1 << 30, has_cuda=True, is_started=True, is_legacy=False, without=()):
        super().__init__("torch")
        self.limit = limit
        self.allocated = self.peak = self.ever = self.reserved = self.split = self.ooms = 0
        self.segments = []
        self.history = None
        self.events = []
        self.calls = []
        self.observers = []
        self.queued = []
        self.is_started = self.has_allocator = is_started
        self.resets = 0
        self.OutOfMemoryError = OutOfMemoryError
        self._C = types.SimpleNamespace(
            _cuda_isHistoryEnabled=lambda: self._started() and self.history is not None,
            _cuda_attach_out_of_memory_observer=self.observers.append,
        )

        def record(enabled="all", context="all", stacks="all", max_entries=1 << 62, device=None):
            assert enabled in (None, "all", "state")
            self.calls.append((enabled, stacks, max_entries))
            self.history = max_entries if enabled else None

        def record_legacy(enabled, record_context=True, trace_alloc_max_entries=1, trace_alloc_record_context=False, device=None, record_context_cpp=False):
            assert isinstance(enabled, bool)
            self.calls.append((enabled, trace_alloc_record_context, trace_alloc_max_entries))
            self.history = trace_alloc_max_entries if enabled else None

        def any_arguments(enabled="all", *args, **kwargs):
            return (record_legacy if is_legacy else record)(enabled, *args, **kwargs)

        # As the real one: it takes anything and says the signature of another function.
        any_arguments.__signature__ = inspect.signature(record_legacy if is_legacy else record)
        memory = types.SimpleNamespace(_record_memory_history=any_arguments, _snapshot=self.snapshot)
        self.cuda = types.SimpleNamespace(
            memory=memory,
            Event=Event,
            is_available=lambda: has_cuda,
            is_initialized=lambda: self.is_started,
            device_count=lambda: int(has_cuda),
            current_stream=lambda device=None: None,
            is_current_stream_capturing=lambda: False,
            mem_get_info=lambda device: (limit - self.reserved, limit),
            memory_stats_as_nested_dict=self.stats,
            memory_snapshot=lambda mempool_id=None, include_traces=True: self.segments,
            reset_peak_memory_stats=self.reset_peak,
            _lazy_call=lambda call: call() if self.is_started else self.queued.append(call),
        )
        for name in without:
            for owner in (self._C, memory, self.cuda):
                if hasattr(owner, name):
                    delattr(owner, name)

    def _started(self):
        assert self.has_allocator, "the real one would crash"
        return True

    def start(self):
        """As `_lazy_init` does: queued calls come before `is_initialized` says so, so nothing may rest on that."""
        self.has_allocator = True
        for call in self.queued:
            call()
        self.is_started = True

    def alloc(self, count):
        if self.allocated + count > self.limit:
            self.ooms += 1
            self._happened("oom", count)
            for observer in self.observers:
                observer(0, count, self.allocated, 100)
            raise OutOfMemoryError("CUDA out of memory")
        self._happened("alloc", count)
        self.allocated += count
        self.ever += count
        self.reserved = max(self.reserved, self.allocated)
        self.peak = max(self.peak, self.allocated)

    def free(self, count):
        self._happened("free_completed", count)
        self.allocated -= count

    def reset_peak(self, device=0):
        self.resets += 1
        self.peak = self.allocated

    def stats(self, device=0):
        if not self.is_started:
            return {}
        return {
            "allocated_bytes": {"all": {"current": self.allocated, "peak": self.peak, "allocated": self.ever, "freed": self.ever - self.allocated}},
            "reserved_bytes": {"all": {"current": self.reserved, "peak": self.reserved}},
            "inactive_split_bytes": {"all": {"current": self.split, "peak": self.split}},
            "num_alloc_retries": 0,
            "num_ooms": self.ooms,
        }

    def snapshot(self):
        return {"segments": self.segments, "device_traces": [list(self.events)]}

    def _happened(self, action, size):
        if self.history is not None:
            event = {"action": action, "size": size, "stream": 0, "time_us": len(self.events), "frames": []}
            event["device_free" if action == "oom" else "addr"] = 100
            self.events = [*self.events, event][-self.history :]


def segment(total, *blocks, **more):
    """A segment of `total` bytes with blocks `(size, is_live)`."""
    address = 1 << 40
    listed = []
    for size, is_live in blocks:
        state = "active_allocated" if is_live else "inactive"
        listed.append({"address": address, "size": size, "requested_size": size if is_live else 0, "state": state, "frames": []})
        address += size
    return {"device": 0, "address": 1 << 40, "total_size": total, "stream": 0, "segment_type": "large", "blocks": listed} | more
