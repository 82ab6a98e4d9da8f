"""Tiny models and data built in code: nothing is downloaded."""

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

WORDS = ["<pad>", "<eos>", "<unk>", *(f"w{number}" for number in range(97))]


def language_model():
    torch.manual_seed(1)
    config = GPT2Config(
        vocab_size=100, n_positions=64, n_embd=32, n_layer=2, n_head=2, pad_token_id=0, bos_token_id=1, eos_token_id=1
    )
    return GPT2LMHeadModel(config)


def tokenizer():
    words = Tokenizer(models.WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", padding_side="left"
    )


class Sentences(torch.utils.data.Dataset):
    """Rows of whole numbers that are their own labels."""

    def __init__(self, count, length=8):
        generator = torch.Generator().manual_seed(2)
        self.rows = torch.randint(3, 100, (count, length), generator=generator)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return {"input_ids": self.rows[index], "labels": self.rows[index]}
