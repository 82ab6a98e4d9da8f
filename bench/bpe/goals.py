"""What we want to reach, and sentences that say whether we do."""

# Rivals' time divided by ours, from the start of the process to the end of the training.
TIMES_FASTER = {
    "en100": {"gigatoken": 3.0, "huggingface": 20.0},
    "code100": {"gigatoken": 3.0, "huggingface": 20.0},
    "ml": {"gigatoken": 2.0},
    "mix1g": {"gigatoken": 2.5},
}
TRAINING_PEAK_MB = {"en100": 64, "code100": 64, "mix1g": 240}
BUDGET_EXCESS = 1.10
SCAN_MB_PER_SECOND = 400
TIMES_TIKTOKEN = 5.0


def at_least(what: str, goal: float, found: float, unit: str, digits: int = 1) -> str:
    return f"Goal: {what} at least {goal:g}{unit}; found {found:.{digits}f}{unit}, {verdict(found >= goal)}."


def at_most(what: str, goal: float, found: float, unit: str, digits: int = 1) -> str:
    return f"Goal: {what} at most {goal:g}{unit}; found {found:.{digits}f}{unit}, {verdict(found <= goal)}."


def verdict(is_reached: bool) -> str:
    return "reached" if is_reached else "**not reached**"
