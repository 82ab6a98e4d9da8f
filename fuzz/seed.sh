#!/bin/sh
# Puts real files into the corpora: golden runs for `run_folder`, one of each for `stacks_and_attachments`, recordings of other tools for `import` (the first byte
# chooses the file or the options), listings of a real Slurm for `sacct`, a counts file for `counts_file`, small ones for
# `merged_counts`, small files
# of each form for `tokenizer_files`, payloads of a buffer for `buffer_file`, snapshots for `allocator_snapshot`,
# files of other programs and pieces of them for `weights_header` (the first byte chooses).
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
stacks=../crates/nilo-runfile/testdata/v1/stacks
for seed in "0 $stacks/one-*.nilo" "1 $stacks/one-*.nilc" "2 $stacks/marks.nilo" "3 $stacks/runs/inner/run.json"; do
    choice=${seed%% *}
    for file in ${seed#* }; do
        { printf "\\00$choice"; cat "$file"; } > "corpus/run_folder/v1-stacks-$choice"
    done
done
mkdir -p corpus/stacks_and_attachments
# A stack 0 (`f` in `g`, line 1), a row that names it, the event of an attachment and its file.
{
    printf '\021\000\000\000\000\000\377\377\377\377\001\000\000\000\001\000fg'
    printf '\011\001\000\000\000\000\000\000\000\000'
    printf '\121\002{"event":"attachment","name":"a","bytes":1,"crc32c":0,"media_type":"text/plain"}'
    printf '\002\004a'
} > corpus/stacks_and_attachments/one
mkdir -p corpus/import
for file in ../crates/nilo-import/testdata/*; do
    { printf '\000'; cat "$file"; } > "corpus/import/$(basename "$file")"
done
mkdir -p corpus/sacct
cp ../crates/nilo-request/testdata/sacct/* corpus/sacct/
mkdir -p corpus/tokenizer_files corpus/bpe
{
    printf '\000'
    printf '%s' '{"added_tokens":[{"id":0,"content":"<s>"}],"normalizer":null,"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},'
    printf '%s' '"model":{"type":"BPE","vocab":{"<s>":0,"a":1,"b":2,"ab":3,"abab":4},"merges":[["a","b"],"ab ab"]}}'
} > corpus/tokenizer_files/json
printf '\001{"a":0,"b":1,"ab":2}\000#version: 0.2\na b\n' > corpus/tokenizer_files/pair
printf '\002YQ== 0\nYg== 1\nYWI= 2\n' > corpus/tokenizer_files/ranks
printf '\001\377\005abab\000\003aaaa\000\003abcabcabc' > corpus/bpe/words
mkdir -p corpus/counts_file
cp ../crates/nilo-tokenizer/testdata/counts-v1 corpus/counts_file/
mkdir -p corpus/merged_counts
printf '\003\200%048d\003abab\000\005abc%048d\007abab\000\002b' 0 0 > corpus/merged_counts/ordered
printf '\000\200%048d\000\001a\005\000\002ab\003%048d\000\001a\001\001\001b\002' 0 0 > corpus/merged_counts/records
mkdir -p corpus/buffer_file
# A buffer of ten transitions whose latest sections are replaced, and one with priorities.
printf '\001\123\003{"first_chunk":0,"chunk_rows":16,"chunks":[]}\356' > corpus/buffer_file/rows
printf '\001\127\001{"first_segment":0,"segment_frames":16,"segments":1,"codec":"patch"}\356%s' aaaa > corpus/buffer_file/frames
mkdir -p corpus/allocator_snapshot
for file in ../crates/nilo-allocator/testdata/seeds/*; do
    cp "$file" corpus/allocator_snapshot/
done
mkdir -p corpus/hook_lines
printf '%s\n' '{"event":"exception","type_name":"ValueError","message":"no","causes":[],"frames":[{"file":"a.py","line":3,"function":"f"}],"time_nanos":42,"pid":7}' > corpus/hook_lines/exception
mkdir -p corpus/weights_header
for file in ../crates/nilo-weights/testdata/*.safetensors ../crates/nilo-weights/testdata/*.gguf; do
    { printf '\000'; cat "$file"; } > "corpus/weights_header/$(basename "$file")"
done
printf '\001%s' '{"__metadata__":{"format":"pt"},"b":{"dtype":"F4","shape":[2,3],"data_offsets":[61,64]},"a":{"dtype":"U8","shape":[61],"data_offsets":[0,61]}}' > corpus/weights_header/json
for file in every-type split-00003-of-00003; do
    { printf '\002'; tail -c +9 "../crates/nilo-weights/testdata/$file.gguf"; } > "corpus/weights_header/$file-body"
done
printf '\003%s' '{"metadata":{"total_size":8},"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}}' > corpus/weights_header/index
mkdir -p corpus/model_config
for file in ../crates/nilo-model/catalogue/models/*.json; do
    cp "$file" corpus/model_config/
done
