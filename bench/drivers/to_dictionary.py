"""A dictionary that nobody keeps: the timer, the building of the dictionary and an empty call, which every figure contains."""

from session import Session


def load() -> None:
    pass


def begin(library, folder: str) -> Session:
    return Session(lambda values, step: None, lambda: None)
