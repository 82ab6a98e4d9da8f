"""Tables as people read them: on the terminal and in the Markdown page."""

from dataclasses import dataclass, field


@dataclass
class Table:
    """One benchmark's result. `columns` maps each column's name to what it means; `notes` are whole sentences."""

    title: str
    columns: dict[str, str]
    rows: list[list[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def as_text(self) -> str:
        names = list(self.columns)
        widths = [max(len(row[i]) for row in [names, *self.rows]) for i in range(len(names))]
        lines = [
            "  ".join(cell.ljust(width) if i == 0 else cell.rjust(width) for i, (cell, width) in enumerate(zip(row, widths, strict=True)))
            for row in [names, *self.rows]
        ]
        return "\n".join([self.title, *(f"  {line.rstrip()}" for line in lines), *(f"  {note}" for note in self.notes)])

    def as_markdown(self) -> str:
        names = list(self.columns)
        lines = [f"## {self.title}", ""]
        lines += ["| " + " | ".join(row) + " |" for row in [names, ["---", *["--:"] * (len(names) - 1)], *self.rows]]
        meanings = [f"- *{name}*: {meaning}" for name, meaning in self.columns.items() if meaning]
        return "\n".join([*lines, "", *meanings, *(["", *self.notes] if self.notes else []), ""])


@dataclass
class Transcript:
    """The output of a program that prints its own lines."""

    title: str
    text: str

    def as_text(self) -> str:
        return f"{self.title}\n" + "\n".join(f"  {line}" for line in self.text.splitlines())

    def as_markdown(self) -> str:
        return f"## {self.title}\n\n```\n{self.text.rstrip()}\n```\n"


def spread(figures: list[float], digits: int) -> str:
    """One figure as itself, several as lowest..highest."""
    low, high = f"{min(figures):.{digits}f}", f"{max(figures):.{digits}f}"
    return low if low == high else f"{low}..{high}"


def times(figure: float, ours: float | None) -> str:
    """How many times ours a rival's figure is."""
    return f"{figure / ours:.1f}×" if ours and ours > 0 and figure > 0 else "–"
