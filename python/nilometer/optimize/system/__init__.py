"""`MemoryOptimizationSystem`: everything for one program, its alerts and its report."""
