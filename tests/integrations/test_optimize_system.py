"""Models in the memory optimization system: every saving is measured, results stay what they were, and everything can be undone."""

import re
import tracemalloc
from types import SimpleNamespace

import pytest
import torch
from tiny import language_model
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

import nilometer
from nilometer.optimize import MemoryOptimizationConfig, MemoryOptimizationSystem, TensorMeter, checkpoint_model
from nilometer.optimize.model.parameter_storage import compact_parameters, model_bytes

QUIET = MemoryOptimizationConfig(monitoring_interval=0.05, enable_memory_profiling=False)


@pytest.fixture
def optimizer():
    with MemoryOptimizationSystem(QUIET) as system:
        yield system


def blocks(count=8):
    torch.manual_seed(3)
    parts = [nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Dropout(0.1), nn.Linear(256, 64)) for _ in range(count)]
    return nn.Sequential(*parts)


def peak_mb(model, sample):
    meter = TensorMeter()
    meter.adopt(list(model.parameters()), sample)
    with meter:
        model(sample).float().square().mean().backward()
    model.zero_grad()
    return meter.peak / 2**20


def test_with_a_sample_the_saving_is_that_of_a_step(optimizer):
    model, sample = blocks(), torch.randn(512, 64)
    before = peak_mb(model, sample)
    result = optimizer.optimize_model_architecture(model, sample, keep_all=True)
    assert result["optimizations_applied"] == ["checkpoint plan"] and result["measured_on"] == "sample"
    assert result["memory_before_mb"] == pytest.approx(before, rel=0.01)
    assert result["memory_after_mb"] == pytest.approx(peak_mb(model, sample), rel=0.01)
    assert result["memory_saved_mb"] == pytest.approx(before - peak_mb(model, sample), rel=0.02) and result["memory_saved_mb"] > 0.2 * before
    assert result["model"]["parameter_count"] == sum(parameter.numel() for parameter in model.parameters())
    optimizer.undo()
    assert peak_mb(model, sample) == pytest.approx(before, rel=0.01)


def traced_blocks():
    """A model, and for each of its forward passes whether Python's allocations were traced."""
    seen = []

    class Traced(nn.Sequential):
        def forward(self, batch):
            seen.append(tracemalloc.is_tracing())
            return super().forward(batch)

    return Traced(*blocks()), seen


def test_no_step_is_timed_while_our_trace_slows_it_down():
    from nilometer.optimize import TrainingMemoryConfig, TrainingMemoryOptimizer

    (model, seen), sample = traced_blocks(), torch.randn(64, 64)
    with MemoryOptimizationSystem(MemoryOptimizationConfig(monitoring_interval=0.05)) as system:
        assert tracemalloc.is_tracing()
        result = system.optimize_model_architecture(model, sample, keep_all=True)
        plan = next(one for one in result["optimizations"] if one["name"] == "checkpoint plan")
        assert plan["seconds_before"] > 0
        # The first step and the look at the finished model have no time taken; all others do.
        assert seen.count(False) >= 10 and seen.count(True) <= 2, seen
        assert tracemalloc.is_tracing() and tracemalloc.get_traceback_limit() == 1
        kept = [bytearray(100_000) for _ in range(20)]
        assert any("test_optimize_system.py" in line["location"] for line in system.lines.top())
        # Inside of a training of ours too.
        seen.clear()
        settings = TrainingMemoryConfig(num_workers=0, enable_mixed_precision=False, initial_batch_size=64)
        data = torch.utils.data.TensorDataset(sample, sample)
        TrainingMemoryOptimizer(settings).optimize_training_loop(model, data, torch.optim.SGD(model.parameters(), lr=0.0), 1, nn.MSELoss())
        assert seen.count(False) >= 5 and seen[-1]
    del kept
    assert not tracemalloc.is_tracing()


def test_a_trace_of_the_program_goes_on_while_steps_are_timed():
    (model, seen), sample = traced_blocks(), torch.randn(64, 64)
    tracemalloc.start(3)
    try:
        with MemoryOptimizationSystem(MemoryOptimizationConfig(monitoring_interval=0.05)) as system:
            system.optimize_model_architecture(model, sample)
        assert all(seen) and tracemalloc.is_tracing() and tracemalloc.get_traceback_limit() == 3
    finally:
        tracemalloc.stop()


def test_a_budget_below_the_weights_is_given_as_the_reason_that_no_batch_fits(optimizer):
    model = nn.Linear(1000, 1000)
    for verify in (False, True):
        batch = optimizer.optimize_training_pipeline(model, torch.randn(4, 1000), budget_bytes=1_000_000, verify_batch=verify)["batch_size"]
        assert batch["largest"] == 0 and "3.8 MiB" in batch["reason"], batch
    assert "not even one sample fits: model and optimizer take 3.8 MiB before a step, and a step may hold 898.4 KiB" == optimizer.optimize_training_pipeline(
        model, torch.randn(4, 1000), budget_bytes=1_000_000
    )["batch_size"]["reason"]


def test_a_recommendation_without_a_known_saving_has_the_key_all_the_same():
    tight = MemoryOptimizationConfig(max_memory_usage_gb=0.02, enable_memory_profiling=False)
    with MemoryOptimizationSystem(tight) as system:
        found = system.generate_optimization_recommendations()
    assert "stay-within-budget" in [one["rule"] for one in found]
    for one in found:
        assert list(one) == ["rule", "text", "change", "evidence", "saving", "confidence", "source"]
    assert next(one for one in found if one["rule"] == "stay-within-budget")["saving"] is None


def test_a_plan_that_is_on_is_not_recommended(optimizer):
    model, sample = blocks(), torch.randn(512, 64)
    optimizer.optimize_model_architecture(model, sample, keep_all=True)
    facts = optimizer.facts()["model"]
    assert facts["repeated_blocks"] == 8 and 0 < facts["checkpointed_blocks"] <= 8
    assert not [one for one in optimizer.generate_optimization_recommendations() if one["rule"] == "checkpoint-blocks"]


def test_a_plan_of_an_earlier_call_is_on_until_it_is_undone(optimizer):
    model, sample = blocks(), torch.randn(512, 64)

    def recommended():
        return [one["rule"] for one in optimizer.generate_optimization_recommendations()]

    optimizer.optimize_model_architecture(model, sample, keep_all=True)
    before = optimizer.facts()["model"]
    result = optimizer.optimize_training_pipeline(model, sample, keep_all=True, budget_bytes=1 << 30)
    [plan] = [row for row in result["optimizations"] if row["name"] == "checkpoint plan"]
    assert "is checkpointed already" in plan["reason"]
    facts = optimizer.facts()["model"]
    assert facts["checkpointed_blocks"] == before["checkpointed_blocks"] > 0 and "checkpoint-blocks" not in recommended()
    optimizer.undo()
    facts = optimizer.facts()
    assert facts["model"]["checkpointed_blocks"] == 0
    assert "peak_bytes" not in facts["model"] and "batch" not in facts, "they were measured with the plan of the first call"


def test_what_a_step_takes_is_known_after_an_undo(optimizer):
    model, sample = blocks(), torch.randn(512, 64)
    result = optimizer.optimize_model_architecture(model, sample, keep_all=True)
    assert "checkpoint-blocks" not in [one["rule"] for one in optimizer.generate_optimization_recommendations()]
    optimizer.undo()
    facts = optimizer.facts()["model"]
    assert facts["peak_bytes"] / 2**20 == pytest.approx(result["memory_before_mb"], rel=0.001)
    assert "checkpoint-blocks" in [one["rule"] for one in optimizer.generate_optimization_recommendations()]


def test_autocast_of_an_earlier_call_is_half_precision(optimizer):
    model, sample = blocks(), torch.randn(512, 64)
    optimizer.optimize_training_pipeline(model, sample, keep_all=True, budget_bytes=1 << 30)
    assert optimizer.facts()["model"]["uses_half_precision"]
    optimizer.optimize_model_architecture(model, sample, keep_all=True)
    assert optimizer.facts()["model"]["uses_half_precision"]
    optimizer.undo()
    assert not optimizer.facts()["model"]["uses_half_precision"]


def test_what_was_measured_as_not_worth_it_is_not_recommended(optimizer, recorded):
    nilometer.init(name="measured")
    torch.manual_seed(1)
    # Nearly all of the peak is activations of blocks that repeat, but it is less than 1 MiB.
    model = nn.Sequential(*[nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 8)) for _ in range(6)])
    sample = torch.randn(300, 8)

    def recommended():
        return [one for one in optimizer.get_comprehensive_report()["recommendations"] if one["rule"] == "checkpoint-blocks"]

    result = optimizer.optimize_model_architecture(model, sample)
    [plan] = [row for row in result["optimizations"] if row["name"] == "checkpoint plan"]
    assert plan["reason"].startswith("not worth it") and optimizer.facts()["model"]["not_worth_it"] == ["checkpoint-blocks"]
    assert recommended() == []
    del optimizer.model_optimizations[-1].facts["not_worth_it"]
    [expected] = recommended()
    assert isinstance(expected["saving"]["bytes"], int), "bytes are whole"
    optimizer.model_optimizations[-1].facts["not_worth_it"] = ["checkpoint-blocks"]
    optimizer.stop()
    assert not [one for one in recorded().summary().get("recommendations", []) if one["rule"] == "checkpoint-blocks"]


def test_without_a_sample_only_storage_is_looked_at_and_it_says_so(optimizer):
    model = blocks(2)
    result = optimizer.optimize_model_architecture(model)
    assert result["memory_saved_mb"] == 0 and result["optimizations_applied"] == [] and result["measured_on"] == "tensor bytes"
    assert "pass a sample" in result["note"]
    assert result["memory_before_mb"] == pytest.approx(model_bytes(model) / 2**20, abs=0.001)


def test_a_model_that_declares_an_input_is_run_on_it(optimizer):
    torch.manual_seed(1)
    config = LlamaConfig(vocab_size=64, hidden_size=64, intermediate_size=256, num_hidden_layers=6, num_attention_heads=2)
    model = LlamaForCausalLM(config)
    model.set_attn_implementation("eager")
    result = optimizer.optimize_model_architecture(model)
    assert result["measured_on"] == "dummy_inputs" and "note" not in result
    assert {one["name"] for one in result["optimizations"]} >= {"sdpa attention", "checkpoint plan"}


def test_unused_storage_is_given_back_and_values_stay():
    model = blocks(2)
    whole = torch.randn(4096, 64)
    model[0][0].weight = nn.Parameter(whole[:256])
    expected = model[0][0].weight.detach().clone()
    model[1][0].weight.grad = torch.zeros_like(model[1][0].weight)
    model[1][3].weight.grad = torch.ones_like(model[1][3].weight)
    model[0][3].weight.grad = torch.ones_like(model[0][3].weight)
    model[0][3].weight.requires_grad_(False)
    before = model_bytes(model)
    del whole
    savings = {saving.name: saving.saved_bytes for saving in compact_parameters(model)}
    quarter = 64 * 256 * 4
    assert savings == {"unused gradients set to none": 2 * quarter, "sliced parameters stored alone": (4096 - 256) * 64 * 4}
    assert before - model_bytes(model) == sum(savings.values())
    assert torch.equal(model[0][0].weight, expected) and model[1][3].weight.grad is not None
    assert compact_parameters(model) == []


def test_parameters_that_share_a_storage_stay_together():
    model = nn.Module()
    whole = torch.randn(100, 10)
    model.first, model.second = nn.Parameter(whole[:40]), nn.Parameter(whole[20:60])
    assert compact_parameters(model) == []
    assert model.first.untyped_storage().data_ptr() == model.second.untyped_storage().data_ptr()


def test_tied_weights_in_two_storages_are_tied_again():
    model = language_model()
    model.lm_head.weight = nn.Parameter(model.transformer.wte.weight.detach().clone())
    size = model.lm_head.weight.numel() * 4
    [saving] = compact_parameters(model)
    assert (saving.name, saving.saved_bytes) == ("tied weights shared again", size)
    assert model.lm_head.weight.data_ptr() == model.transformer.wte.weight.data_ptr()
    with torch.no_grad():
        model.lm_head.weight = nn.Parameter(model.transformer.wte.weight.detach() + 1)
    assert compact_parameters(model) == [], "weights that differ are not the same weights"


def test_the_training_pipeline_finds_the_batch_that_fits(optimizer):
    torch.manual_seed(1)
    model = language_model()
    ids = torch.randint(3, 100, (8, 32))
    torch_optimizer = torch.optim.AdamW(model.parameters())
    budget = 64 << 20
    arguments = {"optimizer": torch_optimizer, "budget_bytes": budget, "keep_all": True}
    result = optimizer.optimize_training_pipeline(model, {"input_ids": ids, "labels": ids}, **arguments)
    assert result["memory_saved_mb"] > 0 and result["optimizations_applied"]
    verified = optimizer.optimize_training_pipeline(model, {"input_ids": ids, "labels": ids}, **arguments, verify_batch=True)
    predicted, found = result["batch_size"], verified["batch_size"]
    assert (predicted["is_verified"], found["is_verified"]) == (False, True)
    assert predicted["largest"] == pytest.approx(found["largest"], rel=0.15), (predicted, found)
    report = optimizer.get_comprehensive_report()
    assert report["model"]["parameter_count"] > 0 and report["training"]["batch_size"]["largest"] == found["largest"]
    assert any(one["name"] == "bfloat16 autocast" for one in report["optimizations"])
    optimizer.undo()


def test_the_batch_that_fits_leaves_room_for_what_the_program_holds(monkeypatch):
    monitor = SimpleNamespace(read=lambda: HELD)
    monkeypatch.setattr("nilometer.optimize.host.free_memory._native", SimpleNamespace(MemoryMonitor=lambda: monitor))
    model, sample = nn.Linear(1 << 20, 1), torch.randn(4, 1 << 20)
    config = MemoryOptimizationConfig(max_memory_usage_gb=1.5, enable_memory_profiling=False)
    batch = MemoryOptimizationSystem(config).optimize_training_pipeline(model, sample)["batch_size"]
    # Of 1.5 GiB, 1 GiB is held, 20 MiB of it by the model and the sample.
    assert batch["budget_mb"] == pytest.approx(512 + 20, abs=1)
    # A sample takes 4 MiB; gradients and some of the room are left for others.
    assert 100 < batch["largest"] < 132
    of_limit = MemoryOptimizationSystem(QUIET).optimize_training_pipeline(model, sample)["batch_size"]
    assert of_limit["budget_mb"] == pytest.approx(1024 + 20, abs=1), "2 GiB is the limit in force"


HELD = {
    "memory_bytes": 1 << 30,
    "limit_bytes": 2 << 30,
    "limit_source": "a cgroup",
    "available_bytes": 100 << 30,
    "children_bytes": 0,
}


def test_a_batch_of_millions_is_not_recommended(optimizer):
    result = optimizer.optimize_training_pipeline(nn.Linear(4, 1), torch.randn(16, 4))
    assert result["batch_size"]["largest"] == 65_535
    batch = optimizer.facts()["batch"]
    assert (batch["micro_batch"], batch["measured_micro_batch"]) == (16, 16)
    assert not [one for one in optimizer.generate_optimization_recommendations() if one["rule"] == "use-free-memory"]
    optimizer.model_optimizations[-1].batch |= {"largest": 100}
    [found] = [one for one in optimizer.generate_optimization_recommendations() if one["rule"] == "use-free-memory"]
    assert "up to 100" in found["change"]


def test_a_batch_that_is_capped_says_so_with_what_memory_would_allow(optimizer, tmp_path):
    arguments = {"budget_bytes": 64 << 20}
    for verify in (False, True):
        batch = optimizer.optimize_training_pipeline(nn.Linear(4, 1), torch.randn(16, 4), **arguments, verify_batch=verify)["batch_size"]
        assert batch["is_capped"] and batch["largest"] > 0.97 * 65_535
        allowed = re.fullmatch(r"capped at 65,535 samples, above which kernels of CUDA refuse a batch; memory would allow about ([\d,]+) samples", batch["reason"])
        assert allowed and 1_000_000 < int(allowed[1].replace(",", "")) < 64 << 20
        optimizer.export_optimization_report(tmp_path / "report.md")
        assert batch["reason"] in (tmp_path / "report.md").read_text()
    fitting = optimizer.optimize_training_pipeline(nn.Linear(1 << 16, 1), torch.randn(16, 1 << 16), **arguments)["batch_size"]
    assert not fitting["is_capped"] and "reason" not in fitting and fitting["largest"] < 300


def test_a_sample_that_does_not_fit_is_refused_in_one_sentence(optimizer):
    meter = TensorMeter(limit_bytes=4 << 20)
    with meter, pytest.raises(nilometer.optimize.NoBatchFits, match="pass a smaller sample"):
        optimizer.optimize_model_architecture(blocks(), torch.randn(4096, 64))


def test_a_plan_that_was_taken_off_is_not_applied_in_the_run(recorded):
    nilometer.init(name="undone")
    outcome = checkpoint_model(blocks(), torch.randn(512, 64))
    outcome.undo()
    outcome.undo()
    [plan] = recorded().summary()["optimizations"]
    assert (plan["applied"], plan["note"]) == (False, "undone")
    assert plan["after_bytes"] < plan["before_bytes"], "what was measured stays"


def test_what_was_tried_is_in_the_run_and_in_the_report(optimizer, recorded, tmp_path):
    nilometer.init(name="optimized")
    model, sample = blocks(), torch.randn(512, 64)
    result = optimizer.optimize_model_architecture(model, sample, keep_all=True)
    cleanup = optimizer.optimize_memory_usage()
    optimizer.export_optimization_report(tmp_path / "report.md")
    rows = optimizer.get_comprehensive_report()["optimizations"]
    optimizer.undo()
    outcome = checkpoint_model(model, sample)
    plan = next(row for row in rows if row["name"] == "checkpoint plan")
    assert plan["applied"] and plan["saved_mb"] == result["memory_saved_mb"]
    assert f"| checkpoint plan | yes | {plan['saved_mb']} |" in (tmp_path / "report.md").read_text()
    assert "| sdpa attention | not tried | – | not tried | the model has no attention" in (tmp_path / "report.md").read_text()
    told = recorded().summary()["optimizations"]
    plans = [one for one in told if one["name"] == "checkpoint plan"]
    assert [one["applied"] for one in plans] == [False, True], "one for each, though steps are made of others"
    assert plans[0]["note"] == "undone"
    assert plans[0]["before_bytes"] - plans[0]["after_bytes"] == pytest.approx(plan["saved_mb"] * 2**20, abs=1024)
    assert plans[1]["after_bytes"] == outcome.peak_after_bytes
    [tidied] = [one for one in told if one["name"] == "cleanup"]
    assert (tidied["before_bytes"] - tidied["after_bytes"]) / 2**20 == pytest.approx(cleanup["memory_saved_mb"], abs=0.01) or cleanup["memory_saved_mb"] == 0
