"""Makes the real files of this folder with the packages `safetensors` and `gguf`, and `expected.json` with what those packages say of them.

pip install safetensors==0.8.0 gguf==0.19.0 numpy
"""

import json
import pathlib

import gguf
import numpy
import safetensors

HERE = pathlib.Path(__file__).parent

# safetensors' names for Python, and the bits of an element.
SAFETENSORS_TYPES = {
    "bool": 8, "float4_e2m1fn_x2": 4, "uint8": 8, "int8": 8, "float8_e5m2": 8, "float8_e4m3fn": 8, "float8_e8m0fnu": 8,
    "float8_e4m3fnuz": 8, "float8_e5m2fnuz": 8, "int16": 16, "uint16": 16, "float16": 16, "bfloat16": 16, "int32": 32,
    "uint32": 32, "float32": 32, "complex64": 64, "float64": 64, "int64": 64, "uint64": 64,
}


def make_safetensors():
    buffers, specs = {}, {}

    def add(name, dtype, shape, length):
        buffers[name] = numpy.zeros(length, dtype=numpy.uint8)
        specs[name] = safetensors.TensorSpec(dtype=dtype, shape=shape, data_ptr=buffers[name].ctypes.data, data_len=length)

    for dtype, bits in SAFETENSORS_TYPES.items():
        # For two values in a byte, PyTorch has the shape of the bytes; the package doubles the last dimension itself.
        add(f"{dtype}.weight", dtype, [2, 3, 4], 24 * max(bits, 8) // 8)
    add("scalar", "float32", [], 4)
    add("empty", "float16", [0, 7], 0)
    path = HERE / "every-type.safetensors"
    path.write_bytes(bytes(safetensors.serialize(specs, {"format": "pt", "note": "caf\u00e9"})))
    with safetensors.safe_open(path, framework="numpy") as file:
        slices = {name: file.get_slice(name) for name in file.keys()}
        return {name: [part.get_dtype(), part.get_shape(), len(buffers[name])] for name, part in slices.items()}


def add_tensors(writer):
    for kind, (block_length, block_bytes) in gguf.GGML_QUANT_SIZES.items():
        if kind is gguf.GGMLQuantizationType.Q8_1:
            continue  # never in a file; the package has another size for it than ggml
        data = numpy.zeros((3, 2 * block_bytes), dtype=numpy.uint8)
        writer.add_tensor(f"{kind.name.lower()}.weight", data, raw_shape=data.shape, raw_dtype=kind)


def add_metadata(writer):
    writer.add_block_count(22)
    writer.add_context_length(2048)
    writer.add_embedding_length(64)
    writer.add_head_count_kv([4, 4, 8])
    writer.add_rope_freq_base(10000.0)
    writer.add_name("tiny")
    writer.add_languages(["en", "de"])
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([f"token {index}" for index in range(300)])
    writer.add_token_scores([float(index) for index in range(300)])
    writer.add_bool("llama.use_it", True)
    writer.add_int32("llama.signed", -7)


def read_back(paths):
    tensors = {}
    for path in paths:
        for tensor in gguf.GGUFReader(path).tensors:
            tensors[tensor.name] = [tensor.tensor_type.name, [int(size) for size in tensor.shape[::-1]], int(tensor.n_bytes)]
    return tensors


def make_gguf():
    def write(name, alignment=None, **options):
        writer = gguf.GGUFWriter(HERE / name, "llama", **options)
        if alignment:
            writer.add_custom_alignment(alignment)
        add_metadata(writer)
        add_tensors(writer)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()

    write("every-type.gguf")
    write("aligned-64.gguf", alignment=64)
    write("big-endian.gguf", endianess=gguf.GGUFEndian.BIG)
    write("split.gguf", split_max_tensors=12)
    return {
        "every-type.gguf": read_back([HERE / "every-type.gguf"]),
        "aligned-64.gguf": read_back([HERE / "aligned-64.gguf"]),
        "split": read_back(sorted(HERE.glob("split-*.gguf"))),
    }


expected = {"every-type.safetensors": make_safetensors(), **make_gguf()}
(HERE / "expected.json").write_text(json.dumps(expected, sort_keys=True) + "\n")
