#!/usr/bin/env bash
# Installs what the tests of the terminal run in and run: a terminal emulator without a screen, an editor, a pager, shells;
# and a browser for the tests of pages.
# Where that cannot be done the tests say what they skip; with CI set, they fail.
set -euo pipefail

missing=()
for program in tmux vim less zsh fish; do
    command -v "$program" >/dev/null || missing+=("$program")
done
command -v chromium >/dev/null || missing+=(chromium)
command -v chromedriver >/dev/null || missing+=(chromium-driver)
[ ${#missing[@]} -gt 0 ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "missing programs: ${missing[*]}" >&2
    echo "hint: sudo apt-get install ${missing[*]}" >&2
    exit 0
fi
echo "installing ${missing[*]}" >&2
apt-get -qq -o DPkg::Lock::Timeout=300 update
DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "${missing[@]}" >/dev/null
