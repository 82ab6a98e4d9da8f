"""PyTorch's GPU memory, once the program uses CUDA: the allocator's figures a few times a second, and every allocation that fails.

CUDA is neither initialized nor waited for, and no peak is reset. Nothing happens in programs that do not use it.
"""

import _thread
import os
import sys

INTERVAL_SECS = 0.25
# Lines are added together, every so many times: each call that may wait costs a busy program more than reading the figures.
# Those of a peak that rose by this share are added at once: a program that is killed leaves the others behind.
TOGETHER = 4
NOTICEABLE = 1.01
PEAKS = ("peak_allocated_bytes", "peak_reserved_bytes")
# Devices that hold nothing are asked, and figures that stay the same are told, every so many times.
SELDOM = 8
MOST_DEVICES = 16
# A program that goes on after each of them may have many.
MOST_FAILURES = 50
MOST_FRAMES = 12
# Larger histories are not written: the program waits for it.
MOST_HISTORY = 200_000

# Memory of each device.
_totals = {}
# The newest figures of each device that holds something, and the peaks that were written.
_told = {}
_written_peaks = {}
# Lines that are not written yet.
_lines = []
_failures = 0
_has_snapshot = False


def begin(torch):
    if not hasattr(torch._C, "_cuda_init"):
        return

    # CUDA calls it when the program has initialized it, in this process or in a forked child.
    def on_cuda():
        try:
            _on_cuda(torch)
        except Exception:
            pass

    if torch.cuda.is_initialized():
        on_cuda()
    else:
        torch.cuda._queued_calls.append((on_cuda, []))


def _on_cuda(torch):
    attach = getattr(torch._C, "_cuda_attach_out_of_memory_observer", None)
    read = getattr(torch._C, "_cuda_memoryStats", None)
    if attach is not None:
        attach(lambda *figures: _on_failure(torch, *figures))
    if read is not None:
        # Not one of `threading`, whose list the program sees. CUDA has threads of its own by now.
        running = _thread.allocate_lock()
        running.acquire()
        # A forked child has those of its parent.
        _told.clear()
        _written_peaks.clear()
        _lines.clear()
        process = os.getpid()

        def end():
            # A forked child has the lines of its parent, and no such thread.
            if os.getpid() == process:
                running.release()
                _write()
                if not _is_told_by_nilometer():
                    # The peak may be younger than the last look.
                    _look(torch, True)
                    _write()

        at_end.append(end)
        _thread.start_new_thread(_sample, (torch, running))
    if attach is None or read is None:
        text = "why GPU memory ran out and how it was used, as torch %s does not have the functions that tell" % torch.__version__
        part("nilo_tell.py")["tell"]({"event": "blind", "text": text})


def _write(*more):
    # Threads may add lines meanwhile.
    together = [*_lines, *more]
    del _lines[: len(together) - len(more)]
    if together:
        part("nilo_tell.py")["write"]("".join(together))


def _sample(torch, running):
    """Tells the allocator's figures until the program ends."""
    turn = 0
    while not running.acquire(True, INTERVAL_SECS):
        try:
            if _is_told_by_nilometer():
                return
            has_risen = _look(torch, turn % SELDOM == 0)
            if has_risen or turn % TOGETHER == 0:
                _write()
        except Exception:
            pass
        turn += 1


def _look(torch, is_whole):
    """Adds the lines of devices, and says whether a peak has risen noticeably."""
    has_risen = False
    count = min(torch._C._cuda_getDeviceCount(), MOST_DEVICES)
    for device in range(count) if is_whole or not _told else list(_told):
        figures = _figures(torch, device)
        if figures["reserved_bytes"] or device in _told:
            if is_whole or figures != _told.get(device):
                has_risen |= _add_line(device, figures)
            _told[device] = figures
    return has_risen


def _add_line(device, figures):
    """Adds the line of a device, and says whether its peak is noticeably above the one that was written at once before."""
    _lines.append(part("nilo_tell.py")["line_of"]({"torch_memory": figures, "device": device}))
    peaks = [figures[name] for name in PEAKS]
    before = _written_peaks.get(device, (0, 0))
    has_risen = any(peak > NOTICEABLE * old for peak, old in zip(peaks, before))
    if has_risen:
        _written_peaks[device] = peaks
    return has_risen


def _is_told_by_nilometer():
    """Where the program measures it with nilometer, it is told by that."""
    native = sys.modules.get("nilometer._native")
    return native is not None and native.has_torch_memory()


def _figures(torch, device):
    """What the allocator counts: it reads its own counters, and asks neither the driver nor the device."""
    statistics = torch._C._cuda_memoryStats(device)

    def of(name, which="current"):
        return int(statistics[name]["all"][which])

    total = _totals.get(device)
    if total is None:
        total = _totals[device] = torch.cuda.get_device_properties(device).total_memory
    figures = {
        "allocated_bytes": of("allocated_bytes"),
        "reserved_bytes": of("reserved_bytes"),
        "peak_allocated_bytes": of("allocated_bytes", "peak"),
        "peak_reserved_bytes": of("reserved_bytes", "peak"),
        "inactive_split_bytes": of("inactive_split_bytes"),
        "alloc_retries": int(statistics.get("num_alloc_retries", 0)),
        "ooms": int(statistics.get("num_ooms", 0)),
        "device_total_bytes": int(total),
    }
    fraction = getattr(torch._C, "_cuda_getMemoryFraction", None)
    if fraction is not None:
        share = float(fraction(device))
        if 0 < share < 1:
            figures["allowed_bytes"] = int(share * total)
    return figures


def _on_failure(torch, device, requested, _device_allocated, device_free):
    """Called where an allocation fails, before the exception is raised, also where the program catches it.

    An exception here would take the place of the program's.
    """
    global _failures
    try:
        _failures += 1
        if _failures > MOST_FAILURES:
            return
        fields = {"event": "gpu-allocation-failed", "device": int(device), "requested_bytes": int(requested), "device_free_bytes": int(device_free)}
        try:
            figures = _figures(torch, device)
            if not _is_told_by_nilometer():
                # The program may be killed for it, and what it held now may be more than at the last look.
                _add_line(int(device), figures)
                _told[int(device)] = figures
            for name in ("allocated_bytes", "reserved_bytes", "inactive_split_bytes", "alloc_retries", "ooms", "device_total_bytes", "allowed_bytes"):
                if name in figures:
                    fields[name] = figures[name]
        except Exception:
            pass
        caller, is_waiting = _caller()
        fields["frames"] = _frames(caller)
        place = _place(caller)
        if place is not None:
            fields["place"] = place
        try:
            found = part("nilo_holders.py")["look"](torch, torch.device("cuda", int(device)), caller)
            if is_waiting:
                # The thread that asks has a setting of its own.
                del found["grad_enabled"]
            fields.update(found)
        except Exception:
            pass
        step = _step()
        if step is not None:
            fields["step"] = step
        try:
            snapshot = _snapshot(torch)
            if snapshot is not None:
                fields["snapshot"] = snapshot
        except Exception:
            pass
        _write(part("nilo_tell.py")["line_of"](fields))
    except Exception:
        pass


def _caller():
    """The line of the program that asked for memory, and whether it only waits for the thread that did."""
    frame = sys._getframe()
    while frame is not None and frame.f_globals is globals():
        frame = frame.f_back
    if frame is not None:
        return frame, False
    # A backward pass runs in threads of its own, without a line of Python; the program waits for it.
    threading = sys.modules.get("threading")
    return threading and sys._current_frames().get(threading.main_thread().ident), True


def _frames(frame):
    frames = []
    while frame is not None and len(frames) < MOST_FRAMES:
        frames.append(_line(frame))
        frame = frame.f_back
    return frames[::-1]


def _line(frame):
    code = frame.f_code
    return {"file": str(code.co_filename)[-500:], "line": frame.f_lineno or 0, "function": str(code.co_name)[:500]}


def _place(frame):
    """The innermost line that is neither a library's nor Python's own."""
    is_own = part("nilo_tell.py")["is_own_code"]
    while frame is not None:
        if is_own(frame.f_code.co_filename):
            return _line(frame)
        frame = frame.f_back
    return None


def _step():
    """The training step, where the program counts it with nilometer."""
    nilometer = sys.modules.get("nilometer._open_runs")
    run = None if nilometer is None else nilometer.current()
    step = None if run is None else run.newest_step
    return step if isinstance(step, int) else None


def _snapshot(torch):
    """Writes what the allocator holds, where the program records its history: the first time it runs out."""
    global _has_snapshot
    is_recorded = getattr(torch._C, "_cuda_isHistoryEnabled", None)
    if _has_snapshot or is_recorded is None or not is_recorded():
        return None
    _has_snapshot = True
    # Where the program records it with nilometer, that attaches it.
    nilometer = sys.modules.get("nilometer._torch_history")
    attached = None if nilometer is None else nilometer.snapshot_of_failure()
    if attached is not None:
        return attached
    import pickle

    held = torch.cuda.memory._snapshot()
    if sum(map(len, held.get("device_traces", ()))) > MOST_HISTORY:
        return None
    name = "snapshot-%d.pickle" % os.getpid()
    descriptor = os.open(folder + "/" + name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        pickle.dump(held, file)
    return name
