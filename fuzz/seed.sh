#!/bin/sh
# Puts real files into the corpora: golden runs for `run_folder`, recordings of other tools for `import` (the first byte
# chooses the file or the options), listings of a real Slurm for `sacct`, a counts file for `counts_file`.
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
mkdir -p corpus/import
for file in ../crates/nilo-import/testdata/*; do
    { printf '\000'; cat "$file"; } > "corpus/import/$(basename "$file")"
done
mkdir -p corpus/sacct
cp ../crates/nilo-analysis/testdata/sacct/* corpus/sacct/
mkdir -p corpus/counts_file
cp ../crates/nilo-tokenizer/testdata/counts-v1 corpus/counts_file/
