"""TensorBoard's own event file writer, used as torch's SummaryWriter uses it: an event for each value."""

import time
from pathlib import Path

from session import NAMES, Session


def load():
    from tensorboard.summary.writer import event_file_writer

    return event_file_writer


def begin(event_file_writer, folder: str) -> Session:
    writer = event_file_writer.EventFileWriter(folder)

    def log(values: dict[str, float], step: int) -> None:
        for name, value in values.items():
            writer.add_event(scalar_event(name, value, step))

    return Session(log, writer.close)


def scalar_event(name: str, value: float, step: int):
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary

    return Event(wall_time=time.time(), step=step, summary=Summary(value=[Summary.Value(tag=name, simple_value=value)]))


def readable_steps(folder: str) -> int:
    events = accumulate(folder)
    known = events.Tags()["scalars"]
    return min(len({event.step for event in events.Scalars(name)}) if name in known else 0 for name in NAMES)


def accumulate(folder: str):
    from tensorboard.backend.event_processing.event_accumulator import SCALARS, EventAccumulator

    # Zero keeps every point; by default it keeps a sample of 10 000.
    return EventAccumulator(folder, size_guidance={SCALARS: 0}).Reload()


def write_series(folder: str, points: int) -> None:
    from series_job import series_values
    from tensorboard.summary.writer.record_writer import RecordWriter

    # Without the queue of the event file writer, which is not what is measured here.
    writer = RecordWriter(open(Path(folder, "events.out.tfevents.1.bench"), "wb"))
    for step, value in enumerate(series_values(points).tolist()):
        writer.write(scalar_event("loss", value, step).SerializeToString())
    writer.close()


def read_series(folder: str):
    import numpy

    events = accumulate(folder).Scalars("loss")
    steps = numpy.fromiter((event.step for event in events), numpy.int64, len(events))
    return steps, numpy.fromiter((event.value for event in events), numpy.float64, len(events))
