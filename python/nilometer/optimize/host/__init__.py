"""The process's own memory: garbage collection, the heap, cleaning up under pressure."""
