"""The architecture check finds packages that the wheel would compile twice."""

import sys

from conftest import ROOT

sys.path.insert(0, str(ROOT / "scripts"))
from wheel_features import find_differing  # noqa: E402  (lies in the folder above)

COMMAND = """nilo-cli v0.1.0 (/project/crates/nilo-cli) []
once_cell v1.21.4 [alloc,std]
clap_derive v4.6.1 (proc-macro) [default]
syn v3.0.9 [default,full]
syn v2.0.1 [default]
"""


def test_packages_of_both_are_compared_by_version_and_features():
    module = COMMAND.replace("nilo-cli", "nilo-py").replace("[alloc,std]", "[alloc,default,std]").replace("clap_derive", "pyo3-macros")
    assert find_differing(COMMAND, module) == ["once_cell v1.21.4"]
    assert find_differing(COMMAND, module.replace("v2.0.1 [default]", "v2.0.2 [full]")) == ["once_cell v1.21.4"]


def test_one_that_is_there_with_two_sets_of_features_is_the_same_only_with_both():
    twice = COMMAND + "once_cell v1.21.4 [default]\n"
    assert find_differing(twice, twice) == []
    assert find_differing(twice, COMMAND) == ["once_cell v1.21.4"]
