"""Finds modules of a crate that use each other in a circle."""

import graphlib
import re


def module_of(path, source):
    """The top-level module that a file belongs to."""
    return path.relative_to(source).parts[0].removesuffix(".rs")


def names_behind(text, start):
    """The first name of each path in `{a, b::c}` or `a::b`, from `start` on."""
    if text[start] != "{":
        return re.match(r"\w*", text[start:]).group(0).split()
    depth, names, fresh = 0, [], True
    for piece in re.findall(r"\w+|[{},]|::|\s+|.", text[start:]):
        if piece == "{":
            depth += 1
        elif piece == "}":
            depth -= 1
            if depth == 0:
                break
        elif piece == "," and depth == 1:
            fresh = True
        elif depth == 1 and fresh and piece.strip():
            names.append(piece)
            fresh = False
    return names


def uses(path, source):
    """The names behind `crate::`, and behind `super::` where that is the crate itself."""
    text = re.sub(r"//[^\n]*", "", path.read_text())
    relative = path.relative_to(source)
    is_module_root = len(relative.parts) == 1 or relative.parts[1:] == ("mod.rs",)
    roots = r"\b(?:crate|super)::" if is_module_root else r"\bcrate::"
    return {name for match in re.finditer(roots, text) for name in names_behind(text, match.end())}


def find_cycle(source):
    """The modules of a cycle in a crate's `src` folder, the first one again at the end; nothing where there is none."""
    files = [path for path in sorted(source.rglob("*.rs")) if path.name not in ("lib.rs", "main.rs")]
    modules = {module_of(path, source) for path in files}
    graph = {module: set() for module in modules}
    for path in files:
        module = module_of(path, source)
        graph[module] |= uses(path, source) & modules - {module}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return None
