"""Token ids of a text, summed up so that two encoders can be compared: `ids.py FILE SEPARATOR_ID` for a file of u16.

The ids of the separator are left out: some encode documents, others a file with its separators.
"""

import hashlib
import sys
from array import array
from collections.abc import Iterable


def of_file_bytes(content: bytes, code: str = "I") -> array:
    """Numbers of 32 (`I`) or 16 bits (`H`), least byte first."""
    numbers = array(code, content)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def summed_up(documents: Iterable[Iterable[int]]) -> tuple[int, str]:
    """How many ids there are, and the checksum of all of them."""
    count, checksum = 0, hashlib.sha256()
    for document in documents:
        numbers = array("I", document)
        count += len(numbers)
        checksum.update(numbers.tobytes())
    return count, checksum.hexdigest()[:12]


if __name__ == "__main__":
    with open(sys.argv[1], "rb") as file:
        numbers = of_file_bytes(file.read(), "H")
    separator = int(sys.argv[2])
    print(*summed_up([[number for number in numbers if number != separator]]))
