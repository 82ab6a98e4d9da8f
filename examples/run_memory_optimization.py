"""What would make a training fit, as a script: `nilo optimize` with its options.

    python examples/run_memory_optimization.py --mode full --report report.md -- python train.py
    python examples/run_memory_optimization.py --mode training --config settings.json   # of the latest run
    python examples/run_memory_optimization.py --mode quick
"""

import runpy

runpy.run_module("nilometer.optimize", run_name="__main__")
