"""tensorboardX's SummaryWriter: an event for each value."""

from session import Session
from to_tensorboard import readable_steps as readable_steps


def load():
    import tensorboardX

    return tensorboardX


def begin(tensorboardX, folder: str) -> Session:  # noqa: N803 - its name
    writer = tensorboardX.SummaryWriter(folder)

    def log(values: dict[str, float], step: int) -> None:
        for name, value in values.items():
            writer.add_scalar(name, value, step)

    return Session(log, writer.close)
