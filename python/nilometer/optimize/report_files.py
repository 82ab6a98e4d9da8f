"""Reports as files, in the format that their name asks for."""

from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Callable
from typing import Any

from .._files import write_json, write_text


def write_report(path: str | os.PathLike[str], report: dict[str, Any], as_markdown: Callable[[dict[str, Any]], str]) -> None:
    """Writes a report, JSON or Markdown, whole or not at all. As of the command, its folder has to be there: a name with a mistake makes no folders."""
    target = pathlib.Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot write the report {target}: the folder {target.parent} does not exist")
    if target.is_dir():
        raise IsADirectoryError(f"cannot write the report {target}: it is a folder")
    kind = target.suffix.lower()
    if kind == ".json":
        write_json(path, report)
    elif kind in (".md", ".markdown"):
        write_text(path, as_markdown(report))
    else:
        raise ValueError(f"the report's name must end in .json or .md, not {os.fspath(path)!r}")


def table(headings: list[str], rows: list[list[Any]]) -> str:
    """A Markdown table.

    >>> print(table(["a", "b"], [[1, None]]))
    | a | b |
    |---|---|
    | 1 | – |
    """
    lines = ["| " + " | ".join(headings) + " |", "|" + "---|" * len(headings)]
    for row in rows:
        lines.append("| " + " | ".join("–" if cell is None else str(cell).replace("|", "\\|").replace("\n", " ") for cell in row) + " |")
    return "\n".join(lines)


def is_applied(row: dict[str, Any]) -> str:
    """Whether an optimization of a report stayed, in words.

    >>> is_applied({"applied": False, "measured": "not tried"})
    'not tried'
    """
    return "yes" if row["applied"] else "not tried" if row["measured"] == "not tried" else "no"


def code(text: str) -> str:
    """Code in Markdown, which may hold backticks itself.

    >>> code("a b"), code("`nilo leak` names it")
    ('`a b`', '`` `nilo leak` names it ``')
    """
    longest = max(map(len, re.findall("`+", text)), default=0)
    ticks = "`" * (longest + 1)
    return f"{ticks} {text} {ticks}" if longest else f"{ticks}{text}{ticks}"


def as_text(text: str) -> str:
    """Text as it is: what Markdown would read as markup is escaped.

    >>> print(as_text("a*b_c [x]"))
    a\\*b\\_c \\[x\\]
    """
    return re.sub(r"([\\`*_\[\]<>#|])", r"\\\1", text)


def bullet_points(recommendations: list[dict[str, Any]]) -> list[str]:
    """Recommendations as lines of Markdown, with what they rest on."""
    if not recommendations:
        return ["No recommendations: no rule matched."]
    lines = []
    for one in recommendations:
        lines.append(f"- **{as_text(one['text'])}** ({one['confidence']} confidence; {as_text(one['source'])})")
        lines.append(f"  - change: {code(one['change'])}")
        lines += [f"  - {as_text(evidence)}" for evidence in one["evidence"]]
    return lines
