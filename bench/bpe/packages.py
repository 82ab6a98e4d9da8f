"""Public packages as sources of text: Debian's through a private apt, npm's through `npm pack`.

The system's own apt settings are neither read for sources nor changed: lists and archives lie in the folder given.
"""

import os
import subprocess
import sys
import tarfile
from pathlib import Path

DEBIAN = "http://deb.debian.org/debian"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
SUITE = "bookworm"


class Unreachable(Exception):
    """A package could not be fetched."""


def say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


class Packages:
    """Fetches packages into `folder`, each once."""

    def __init__(self, folder: Path):
        self.folder = folder.resolve()
        self.apt_ready = False
        for part in ("lists/partial", "archives/partial", "debian", "npm"):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        (self.folder / "status").touch()
        signed = f"[signed-by={KEYRING}] " if Path(KEYRING).exists() else ""
        (self.folder / "sources.list").write_text(f"deb {signed}{DEBIAN} {SUITE} main non-free\n")

    def apt(self, *arguments: str) -> None:
        settings = {
            "Dir::State::lists": self.folder / "lists",
            "Dir::State::status": self.folder / "status",
            "Dir::Cache::archives": self.folder / "archives",
            "Dir::Cache::pkgcache": "",
            "Dir::Cache::srcpkgcache": "",
            "Dir::Etc::sourcelist": self.folder / "sources.list",
            "Dir::Etc::sourceparts": "/dev/null",
            "APT::Sandbox::User": "root",
            "APT::Architecture": "amd64",
            "APT::Architectures": "amd64",
        }
        options = [part for key, value in settings.items() for part in ("-o", f"{key}={value}")]
        command = ["apt-get", "-qq", *options, *arguments]
        fetch(command, "Debian's packages", cwd=self.folder / "debian", stdout=sys.stderr)

    def debian(self, name: str) -> Path:
        """The package's `.deb`."""
        pattern = f"{name}_*.deb"
        found = sorted((self.folder / "debian").glob(pattern))
        if not found:
            if not self.apt_ready:
                say("reading Debian's package lists")
                self.apt("update")
                self.apt_ready = True
            say(f"fetching {name} from Debian")
            self.apt("download", name)
            found = sorted((self.folder / "debian").glob(pattern))
        return found[0]

    def npm(self, name: str, version: str) -> Path:
        """The package's tarball."""
        file = self.folder / "npm" / f"{name.replace('@', '').replace('/', '-')}-{version}.tgz"
        if not file.exists():
            say(f"fetching {name} {version} from npm")
            command = ["npm", "pack", "--silent", f"{name}@{version}"]
            environment = dict(os.environ, npm_config_update_notifier="false")
            fetch(command, "npm's packages", cwd=file.parent, env=environment, stdout=subprocess.DEVNULL)
        return file


def fetch(command: list[str], what: str, **settings) -> None:
    try:
        subprocess.run(command, check=True, stderr=subprocess.PIPE, text=True, **settings)
    except FileNotFoundError:
        raise Unreachable(f"{what} cannot be fetched: there is no {command[0]}") from None
    except subprocess.CalledProcessError as failure:
        reason = (failure.stderr.strip().splitlines() or ["it gave no reason"])[-1]
        raise Unreachable(f"{what} cannot be fetched: {command[0]}: {reason}") from None


def debian_members(package: Path):
    """(name, open file) of each plain file in a `.deb`, in the archive's order."""
    command = ["dpkg-deb", "--fsys-tarfile", str(package)]
    # A reader that has enough stops early, of which dpkg-deb would complain.
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as unpacking:
        with tarfile.open(fileobj=unpacking.stdout, mode="r|") as archive:
            yield from plain_files(archive)
        if unpacking.wait() != 0:
            raise RuntimeError(f"dpkg-deb could not unpack {package}")


def plain_files(archive):
    """(name, open file) of each plain file in an open tar."""
    for member in archive:
        if member.isfile():
            yield member.name, archive.extractfile(member)
