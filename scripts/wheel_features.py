"""Finds packages that the command and the extension module build with different features: the wheel has both, and each such package, with all that needs it, is compiled twice for it."""

import re
import subprocess

LINE = re.compile(r"(?P<package>\S+ v\S+).*\[(?P<features>.*)\]$")


def features_in(tree):
    """The features of each package in the output of `cargo tree --format '{p} [{f}]'`; one may be there several times, as for the build and for the program."""
    found = {}
    for line in tree.splitlines():
        match = LINE.match(line.removesuffix(" (*)"))
        if match:
            found.setdefault(match["package"], set()).add(match["features"])
    return found


def find_differing(one, other):
    """The packages of two trees that have other features in each."""
    one, other = features_in(one), features_in(other)
    return sorted(package for package in one.keys() & other.keys() if one[package] != other[package])


def tree_of(root, package):
    command = ["cargo", "tree", "--locked", "--package", package, "--edges", "normal,build", "--prefix", "none", "--no-dedupe", "--format", "{p} [{f}]"]
    return subprocess.check_output(command, cwd=root, text=True)
