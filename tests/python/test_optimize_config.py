"""Settings of the optimizer: the documents' fields and defaults, files, presets, and one sentence for what is wrong."""

import dataclasses
import json
import math
import numbers

import numpy
import pytest

import nilometer
from nilometer.optimize import (
    MemoryOptimizationConfig,
    TrainingMemoryConfig,
    create_memory_efficient_config,
    create_memory_optimized_config,
    load_configs,
    write_config_template,
)

# As the document writes them.
MEMORY = {
    "max_memory_usage_gb": 8.0,
    "memory_warning_threshold": 0.75,
    "memory_critical_threshold": 0.90,
    "gc_threshold_0": 700,
    "gc_threshold_1": 10,
    "gc_threshold_2": 10,
    "auto_gc_interval": 60.0,
    "buffer_size_limit_mb": 1024,
    "enable_buffer_compression": True,
    "monitoring_interval": 5.0,
    "enable_memory_profiling": True,
    "profile_top_n": 10,
}
TRAINING = {
    "initial_batch_size": 32,
    "max_batch_size": 512,
    "min_batch_size": 8,
    "memory_threshold": 0.85,
    "enable_mixed_precision": True,
    "enable_gradient_checkpointing": True,
    "checkpoint_segments": 4,
    "num_workers": 4,
    "pin_memory": True,
    "persistent_workers": True,
}


def test_fields_and_defaults_are_those_of_the_document():
    assert MEMORY.items() <= MemoryOptimizationConfig().to_dict().items()
    assert TRAINING.items() <= TrainingMemoryConfig().to_dict().items()
    assert MemoryOptimizationConfig(**MEMORY) == MemoryOptimizationConfig()
    assert TrainingMemoryConfig(**TRAINING) == TrainingMemoryConfig()
    assert nilometer.MemoryOptimizationConfig is MemoryOptimizationConfig


def test_troubleshooting_settings_of_the_document_are_taken():
    TrainingMemoryConfig(initial_batch_size=16, min_batch_size=4, memory_threshold=0.8)
    TrainingMemoryConfig(enable_gradient_checkpointing=True, checkpoint_segments=2, enable_mixed_precision=True)
    MemoryOptimizationConfig(enable_memory_profiling=True, profile_top_n=20, monitoring_interval=1.0)
    MemoryOptimizationConfig(monitoring_interval=10.0, enable_memory_profiling=False)


@pytest.mark.parametrize(
    ("kind", "values", "error", "sentence"),
    [
        (MemoryOptimizationConfig, {"max_memory_usage_gb": "8"}, TypeError, "max_memory_usage_gb must be a number, not '8'"),
        (MemoryOptimizationConfig, {"max_memory_usage_gb": float("nan")}, ValueError, "max_memory_usage_gb must be a finite number"),
        (MemoryOptimizationConfig, {"gc_threshold_0": 7.5}, TypeError, "gc_threshold_0 must be a whole number, not 7.5"),
        (MemoryOptimizationConfig, {"profile_top_n": True}, TypeError, "profile_top_n must be a whole number, not True"),
        (MemoryOptimizationConfig, {"memory_warning_threshold": 75}, ValueError, "write 0.75 for 75 %"),
        (
            MemoryOptimizationConfig,
            {"memory_warning_threshold": 0.95},
            ValueError,
            r"memory_warning_threshold \(0.95\) must be below memory_critical_threshold \(0.9\): lower",
        ),
        (MemoryOptimizationConfig, {"max_memory_usage_gb": 1, "buffer_size_limit_mb": 2000}, ValueError, "set it to 512 or less"),
        # Written down, the number that is the default counts too.
        (MemoryOptimizationConfig, {"max_memory_usage_gb": 1, "buffer_size_limit_mb": 1024}, ValueError, r"buffer_size_limit_mb \(1024 MB\) is more than half of max_memory_usage_gb \(1 GB\)"),
        (MemoryOptimizationConfig, {"buffer_size_limit_mb": 1e9}, ValueError, r"buffer_size_limit_mb \(1000000000 MB\) is more than half of"),
        (MemoryOptimizationConfig, {"buffer_size_limit_mb": 4096.5}, ValueError, "set it to 4096 or less"),
        (MemoryOptimizationConfig, {"auto_gc_interval": 0}, ValueError, "auto_gc_interval must be more than 0, not 0"),
        (MemoryOptimizationConfig, {"monitoring_interval": 7200}, ValueError, "at most 3600 seconds"),
        (TrainingMemoryConfig, {"min_batch_size": 64}, ValueError, r"min_batch_size \(64\) must be at most initial_batch_size"),
        (TrainingMemoryConfig, {"max_batch_size": 16}, ValueError, r"initial_batch_size \(32\) must be at most max_batch_size \(16\)"),
        (TrainingMemoryConfig, {"num_workers": -1}, ValueError, "num_workers must be at least 0, not -1"),
        (TrainingMemoryConfig, {"pin_memory": 1}, TypeError, "pin_memory must be true or false, not 1"),
        (TrainingMemoryConfig, {"effective_batch_size": 0}, ValueError, "effective_batch_size must be at least 1"),
        (
            TrainingMemoryConfig,
            {"effective_batch_size": 16},
            ValueError,
            r"initial_batch_size \(32\) must be at most effective_batch_size \(16\): lower initial_batch_size or raise",
        ),
        (MemoryOptimizationConfig, {"gc_threshold_0": 10**400}, ValueError, "gc_threshold_0 must be at most 2147483647"),
        (MemoryOptimizationConfig, {"max_memory_usage_gb": 10**400}, ValueError, "max_memory_usage_gb must be a finite number"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(kind, values, error, sentence):
    with pytest.raises(error, match=sentence) as raised:
        kind(**values)
    assert "\n" not in str(raised.value)
    # JSON has no NaN, and no number of 400 digits.
    with pytest.raises(ValueError, match=f"{next(iter(values))}|not JSON"):
        kind.from_json(json.dumps(values))


def test_unknown_keys_of_a_file_name_what_was_meant(tmp_path):
    with pytest.raises(ValueError, match='the JSON text: unknown setting "monitor_interval"; did you mean "monitoring_interval"?'):
        MemoryOptimizationConfig.from_json('{"monitor_interval": 1}')
    with pytest.raises(ValueError, match="did you mean 'monitoring_interval'?"):
        MemoryOptimizationConfig.from_mapping({"monitor_interval": 1})
    with pytest.raises(ValueError, match="num_workers is a setting of TrainingMemoryConfig, not of MemoryOptimizationConfig: put it under 'training'"):
        MemoryOptimizationConfig.from_mapping({"num_workers": 1})
    with pytest.raises(ValueError, match='the setting "num_workers" is in the wrong place; put it under "training"'):
        load_configs('{"memory": {}, "num_workers": 2}')
    broken = tmp_path / "settings.json"
    broken.write_text("{,}")
    with pytest.raises(ValueError, match=r"settings\.json: the configuration is not JSON"):
        load_configs(broken)
    with pytest.raises(ValueError, match="JSON object"):
        TrainingMemoryConfig.from_json("[1]")


ODD = [float("nan"), float("inf"), -float("inf"), -1, -0.5, 0, 0.5, 1, 1.5, 8, 8.0, 1e6, 2**31, 1e13, 1e300, 10**400, True, False, None, "8", "", [], {}, [8]]
FIELDS = [(kind, field) for kind in (MemoryOptimizationConfig, TrainingMemoryConfig) for field in dataclasses.fields(kind)]


@pytest.mark.parametrize(("kind", "field"), FIELDS, ids=lambda value: getattr(value, "name", ""))
def test_every_field_takes_what_its_type_says_and_files_agree(kind, field):
    allowed = {"int": numbers.Real, "float": numbers.Real, "bool": bool}[field.type.removesuffix(" | None")]
    taken = []
    for value in ODD:
        try:
            config = kind(**{field.name: value})
        except (ValueError, TypeError) as error:
            assert field.name in str(error) and "\n" not in str(error) and len(str(error)) < 300, error
            config = None
        else:
            kept = getattr(config, field.name)
            assert kept == value and type(kept).__name__ in (*field.type.split(" | "), "NoneType")
            assert value is None and "None" in field.type or isinstance(value, allowed) and isinstance(value, bool) == (allowed is bool)
            assert isinstance(value, bool) or value is None or math.isfinite(value) and value >= 0
            taken.append(value)
        try:
            from_file = kind.from_json(json.dumps({field.name: value}))
        except ValueError as error:
            assert field.name in str(error) or "not JSON" in str(error)
            from_file = None
        assert from_file == config, value
    assert taken, "a field that takes nothing is not tested"


def test_numbers_of_numpy_are_numbers():
    assert TrainingMemoryConfig(initial_batch_size=numpy.int64(16)).to_dict()["initial_batch_size"] == 16
    assert MemoryOptimizationConfig(max_memory_usage_gb=numpy.float32(4)).to_json()
    with pytest.raises(TypeError, match="pin_memory must be true or false"):
        TrainingMemoryConfig(pin_memory=numpy.int64(1))


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('{"profile_top_n": 3, "profile_top_n": 4}', "profile_top_n"),
        ('{"memory": {"profile_top_n": 3, "profile_top_n": 3}}', "profile_top_n"),
        ('{"training": {}, "training": {}}', "training"),
    ],
)
def test_a_setting_given_twice_is_refused_by_name_also_by_the_command(nilo, text, key):
    (nilo.folder / "twice.json").write_text(text)
    for read in (MemoryOptimizationConfig.from_json, TrainingMemoryConfig.from_json, load_configs):
        with pytest.raises(ValueError, match=f'twice.json: the setting "{key}" is given twice; remove one of the two'):
            read(nilo.folder / "twice.json")
    refused = nilo("optimize", "--config", "twice.json")
    assert refused.returncode == 2 and f'the setting "{key}" is given twice' in refused.stderr


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path):
    (tmp_path / "marked.json").write_text('{"profile_top_n": 3}', encoding="utf-8-sig")
    assert MemoryOptimizationConfig.from_json(tmp_path / "marked.json").profile_top_n == 3


def test_files_come_back_as_they_were_written(tmp_path):
    memory = MemoryOptimizationConfig(max_memory_usage_gb=3.5, profile_top_n=20)
    memory.to_json(tmp_path / "memory.json")
    assert MemoryOptimizationConfig.from_json(tmp_path / "memory.json") == memory
    assert MemoryOptimizationConfig.from_json(str(tmp_path / "memory.json")) == memory
    training = TrainingMemoryConfig(effective_batch_size=256)
    assert TrainingMemoryConfig.from_json(training.to_json()) == training


@pytest.mark.parametrize("write", [write_config_template, MemoryOptimizationConfig().to_json, TrainingMemoryConfig().to_json])
def test_a_name_with_a_mistake_makes_no_folders(write, tmp_path):
    with pytest.raises(FileNotFoundError, match="the folder .*setings does not exist; make it first"):
        write(tmp_path / "setings" / "memory.json")
    with pytest.raises(IsADirectoryError, match="it is a folder; name a file in it"):
        write(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_file_has_one_part_or_both(tmp_path):
    both = '{"memory": {"profile_top_n": 3}, "training": {"num_workers": 1}}'
    assert MemoryOptimizationConfig.from_json(both).profile_top_n == 3
    assert TrainingMemoryConfig.from_json(both).num_workers == 1
    side_by_side = tmp_path / "flat.json"
    side_by_side.write_text('{"profile_top_n": 4, "num_workers": 2}')
    memory, training = load_configs(side_by_side)
    assert (memory.profile_top_n, training.num_workers) == (4, 2)
    # What one of the readers takes, all take.
    assert (MemoryOptimizationConfig.from_json(side_by_side), TrainingMemoryConfig.from_json(side_by_side)) == (memory, training)
    with pytest.raises(ValueError, match='unknown setting "workers"'):
        load_configs('{"workers": 2}')
    write_config_template(tmp_path / "memory_optimization_config.json")
    assert load_configs(tmp_path / "memory_optimization_config.json") == (MemoryOptimizationConfig(), TrainingMemoryConfig())


def test_the_default_for_buffers_gives_way_to_a_small_maximum_and_says_so():
    small = MemoryOptimizationConfig(max_memory_usage_gb=1)
    assert small.to_dict()["buffer_size_limit_mb"] == 512 and small.buffer_bytes == 512 << 20
    assert MemoryOptimizationConfig.from_json('{"max_memory_usage_gb": 1}') == MemoryOptimizationConfig.from_json(small.to_json()) == small
    assert MemoryOptimizationConfig(max_memory_usage_gb=1, buffer_size_limit_mb=512) == small
    # A copy of the default is no number that somebody wrote down.
    assert dataclasses.replace(MemoryOptimizationConfig(), max_memory_usage_gb=1) == small


def test_presets_fit_the_machine_and_heed_what_is_given():
    limit = nilometer._native.memory_limit()[0]
    config = create_memory_optimized_config()
    assert config.max_memory_usage_gb == pytest.approx(0.9 * limit / 2**30, abs=1e-3)
    assert config.buffer_size_limit_mb <= limit / 8 / 2**20 + 1
    assert create_memory_optimized_config(max_memory_usage_gb=2, gc_threshold_0=900).gc_thresholds == (900, 20, 10)
    assert create_memory_optimized_config(max_memory_usage_gb=0.25).buffer_size_limit_mb <= 32
    assert create_memory_efficient_config(effective_batch_size=4).initial_batch_size == 4
    with pytest.raises(TypeError, match="max_memory_usage_gb must be a number, not '8'"):
        create_memory_optimized_config(max_memory_usage_gb="8")
    assert create_memory_efficient_config(min_batch_size=32).initial_batch_size == 32
    larger = create_memory_efficient_config(min_batch_size=1000)
    assert (larger.initial_batch_size, larger.max_batch_size) == (1000, 1000)
    assert create_memory_efficient_config(initial_batch_size=600).max_batch_size == 600
    training = create_memory_efficient_config(max_batch_size=8)
    assert (training.initial_batch_size, training.max_batch_size, training.min_batch_size) == (8, 8, 1)
    assert training.pin_memory == training.enable_mixed_precision == bool(nilometer._native.gpu_readings())
    with pytest.raises(ValueError, match="did you mean 'num_workers'"):
        create_memory_efficient_config(num_worker=2)


def test_buffers_never_take_more_than_half_of_a_small_maximum():
    config = MemoryOptimizationConfig(max_memory_usage_gb=0.5)
    assert config.buffer_bytes == 256 << 20
    assert MemoryOptimizationConfig().buffer_bytes == 1 << 30


def test_the_command_has_the_same_settings_and_refuses_the_same(nilo):
    template = nilo("optimize", "--template")
    assert load_configs(template.stdout) == (MemoryOptimizationConfig(), TrainingMemoryConfig())
    ours = {"memory": MemoryOptimizationConfig().to_dict(), "training": TrainingMemoryConfig().to_dict()}
    assert json.loads(template.stdout) == ours
    assert nilo("run", "--", "true").returncode == 0
    write_config_template(nilo.folder / "settings.json")
    assert nilo("optimize", "--config", "settings.json").returncode in (0, 1)
    for wrong in ({"memory_warning_threshold": 0.9}, {"min_batch_size": 64}, {"monitor_interval": 1}, {"pin_memory": 1}, {"effective_batch_size": 1}, {"memory": {"num_workers": 1}}):
        (nilo.folder / "wrong.json").write_text(json.dumps(wrong))
        assert nilo("optimize", "--config", "wrong.json").returncode == 2, wrong
        with pytest.raises((ValueError, TypeError)):
            load_configs(nilo.folder / "wrong.json")
