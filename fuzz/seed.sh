#!/bin/sh
# Puts the golden runs into the corpus of the `run_folder` target; the first byte chooses the file.
set -eu
cd "$(dirname "$0")"
mkdir -p corpus/run_folder
golden=../crates/nilo-runfile/testdata/v1/golden
for seed in "0 $golden/golden-*.nilo" "1 $golden/golden-*.nilc" "2 $golden/marks.nilo" "3 $golden/run.json"; do
    choice=${seed%% *}
    for file in ${seed#* }; do
        { printf "\\00$choice"; cat "$file"; } > "corpus/run_folder/v1-$choice"
    done
done
