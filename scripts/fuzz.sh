#!/usr/bin/env bash
# Fuzzes every target for a number of seconds each (60 unless given); any finding ends it with a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
command -v cargo-fuzz >/dev/null || cargo install cargo-fuzz --locked
fuzz/seed.sh
cd fuzz
for target in $(cargo +nightly fuzz list); do
    echo "fuzzing $target for $seconds s"
    cargo +nightly fuzz run "$target" -- -max_total_time="$seconds" -rss_limit_mb=2048
done
