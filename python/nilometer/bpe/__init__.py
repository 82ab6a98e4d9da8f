"""Byte-level BPE: training in bounded memory, watched if wished, with files that every tokenizer library reads."""

from .compare import VocabularyResult, compare_vocab_sizes
from .counts import count, count_from_iterator, merge_counts
from .monitoring import BPEWithMonitoring, train_bpe_with_monitoring
from .tokenizer import BPE

__all__ = [
    "BPE",
    "BPEWithMonitoring",
    "VocabularyResult",
    "compare_vocab_sizes",
    "count",
    "count_from_iterator",
    "merge_counts",
    "train_bpe_with_monitoring",
]
