"""Byte-level BPE: training in bounded memory, watched if wished, with files that every tokenizer library reads."""

from .compare import VocabularyResult, compare_vocab_sizes
from .monitoring import BPEWithMonitoring, train_bpe_with_monitoring
from .tokenizer import BPE

__all__ = ["BPE", "BPEWithMonitoring", "VocabularyResult", "compare_vocab_sizes", "train_bpe_with_monitoring"]
