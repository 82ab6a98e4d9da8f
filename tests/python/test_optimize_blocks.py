"""Blocks and functions that clean up after themselves, and the quick cleanup: what each frees is measured."""

import asyncio
import gc

import pytest
from package import run_program

from nilometer.optimize import memory_efficient_context, memory_efficient_decorator, memory_efficient_training, quick_memory_optimization


def test_quick_optimization_measures(tmp_path):
    code = """
        import gc, nilometer
        gc.disable()
        class Node:
            pass
        node = Node()
        node.self, node.data = node, bytearray(100 << 20)
        del node
        result = nilometer.quick_memory_optimization()
        assert 95 < result["memory_saved_mb"] < 130 and result["objects_collected"] >= 1, result
        assert nilometer.quick_memory_optimization()["memory_saved_mb"] < 10
    """
    run_program(code, tmp_path)
    quick = quick_memory_optimization()
    assert set(quick) >= {"memory_saved_mb", "gpu_memory_saved_mb", "actions"}
    assert quick["optimizations_applied"] == [row["name"] for row in quick["actions"] if row["saved_mb"] > 0]


class Kept:
    """Garbage that only a collection frees."""

    alive = 0

    def __init__(self):
        self.self = self
        Kept.alive += 1

    def __del__(self):
        Kept.alive -= 1


@pytest.fixture
def no_gc():
    gc.collect()
    Kept.alive = 0
    gc.disable()
    yield
    gc.enable()


def test_contexts_and_functions_leave_no_garbage(no_gc):
    with memory_efficient_context() as figures:
        Kept()
    assert Kept.alive == 0 and figures["memory_saved_mb"] >= 0 and figures["objects_collected"] >= 1
    with pytest.raises(KeyError), memory_efficient_context():
        Kept()
        raise KeyError
    gc.collect()
    assert Kept.alive == 0

    @memory_efficient_decorator(threshold_mb=0)
    def work(a, *, b):
        """What it does."""
        Kept()
        return a + b

    assert work(1, b=2) == 3 and Kept.alive == 0
    assert work.__name__ == "work" and work.__doc__ == "What it does."

    @memory_efficient_decorator(threshold_mb=1e6)
    def small():
        Kept()

    small()
    assert Kept.alive == 1, "a call that grew by little is not worth a collection"


@pytest.mark.parametrize("wrong", [-1, float("nan"), "16", None, True])
def test_thresholds_that_are_no_size_are_refused_at_once(wrong):
    with pytest.raises((ValueError, TypeError), match="^threshold_mb must"):
        memory_efficient_decorator(threshold_mb=wrong)
    with pytest.raises((ValueError, TypeError), match="^threshold_mb must"), memory_efficient_context(threshold_mb=wrong):
        pass


def test_methods_of_a_class_are_decorated_on_either_side(no_gc):
    tidy = memory_efficient_decorator(threshold_mb=0)

    class Work:
        @tidy
        @staticmethod
        def above(value=1):
            """What it does."""
            Kept()
            return value

        @staticmethod
        @tidy
        def below(value=2):
            Kept()
            return value

        @memory_efficient_decorator
        @classmethod
        def of_class(cls):
            return cls

        @tidy
        def of_object(self):
            Kept()
            return self

    one = Work()
    assert (one.above(), Work.above(3), one.below(), Work.below(4)) == (1, 3, 2, 4) and Kept.alive == 0
    assert one.of_class() is Work.of_class() is Work and one.of_object() is one and Kept.alive == 0
    assert Work.above.__name__ == "above" and Work.above.__doc__ == "What it does."


def test_async_functions_and_generators(no_gc):
    tidy = memory_efficient_decorator(threshold_mb=0)

    @tidy
    async def later(value):
        Kept()
        await asyncio.sleep(0)
        return value

    @tidy
    async def numbers():
        Kept()
        yield 1
        yield 2

    @tidy
    def echo():
        Kept()
        got = yield 1
        return got

    async def main():
        assert await later(5) == 5 and Kept.alive == 0
        assert [number async for number in numbers()] == [1, 2] and Kept.alive == 0

    asyncio.run(main())
    generator = echo()
    assert next(generator) == 1 and Kept.alive == 1
    with pytest.raises(StopIteration) as end:
        generator.send("sent")
    assert end.value.value == "sent" and Kept.alive == 0
    with pytest.raises(TypeError, match="name its argument"):
        memory_efficient_decorator(64)


def test_training_of_ones_own_is_stepped_and_cleaned_up():
    before = gc.get_threshold()
    with memory_efficient_training(every_steps=2) as training:
        for _ in range(5):
            training.step(samples=3)
        assert training.collector.stats()["steps"] == 5 and training.collector.every_steps == 2
    assert gc.get_threshold() == before
    report = training.get_comprehensive_report()
    assert report["training"]["steps"] == 5 and report["optimizations"][0]["name"] == "cleanup"
