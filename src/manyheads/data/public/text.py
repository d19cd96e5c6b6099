"""Sentiment140: tweets as rows of tokens."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from manyheads.core.files import write_text
from manyheads.core.randomness import Purpose, generator
from manyheads.core.settings import settings
from manyheads.data.division import systematic_sample
from manyheads.data.pool import Pool
from manyheads.data.public.locate import Location
from manyheads.data.public.readers.sent140 import read_sent140

__all__ = ["Sent140", "encode", "held_out", "tokens", "vocabulary"]

PADDING, UNKNOWN = 0, 1
SENTIMENTS = ("negative", "positive")
_TOKEN = re.compile(r"(?P<url>https?://\S+|www\.\S+)|(?P<user>@\w+)|\w+(?:'\w+)*|[!?]")


@settings
class Sent140:
    """Sentiment140: tweets, negative (0) or positive (1); clients by their authors with ``--partition user``.

    The vocabulary comes from the training part, and clients by author keep that split: no test tweet contributes to it.
    """

    name: ClassVar[str] = "sent140"
    model: ClassVar[str] = "lstm"
    path: str = ""
    """the CSV file, LEAF's JSON files or a folder with either; empty: sent140 under MANYHEADS_DATA"""
    test_fraction: Annotated[float, Field(gt=0, lt=1)] = 0.2
    """fraction of the tweets of each label (and nearly of each author) that is held out for the clients' tests"""
    vocabulary_size: Annotated[int, Field(ge=3)] = 10_000
    """size of the vocabulary: the most frequent words of the training tweets, with padding and unknown"""
    length: Annotated[int, Field(ge=1)] = 25
    """tokens per tweet; longer tweets are cut, shorter ones padded at the end"""
    words: str = ""
    """file to write the vocabulary to, one word per line, for a model with word vectors"""

    def pool(self, seed: int) -> Pool:
        tweets = read_sent140(Location.of(self.name, self.path).folder)
        users, y = np.array([t.user for t in tweets]), np.array([t.label for t in tweets], np.int64)
        split = [tokens(t.text) for t in tweets]
        test = held_out(y, users, self.test_fraction, seed)
        words = vocabulary((split[i] for i in np.flatnonzero(~test)), self.vocabulary_size)
        if self.words:
            write_text(Path(self.words), "\n".join(words))
        x = encode(split, words, self.length)
        keys = {"user": np.concatenate([users[~test], users[test]])}
        return Pool("sent140", x[~test], y[~test], x[test], y[test], 2, keys, keep_split=True, label_names=SENTIMENTS)


def tokens(text: str) -> list[str]:
    """Words in lower case, ``!`` and ``?``; any link, and any user's name, is one token, as in GloVe's Twitter vectors.

    >>> tokens("@Bob I can't wait!! &lt;3 http://t.co/x")
    ['<user>', 'i', "can't", 'wait', '!', '!', '3', '<url>']
    """
    found = _TOKEN.finditer(html.unescape(text).lower())
    return [f"<{m.lastgroup}>" if m.lastgroup else m.group() for m in found]


def vocabulary(texts: Iterable[list[str]], size: int) -> list[str]:
    """The words of the tokens 0, 1, 2, ...: padding, unknown, then words from the most frequent on.

    >>> vocabulary([["b", "a"], ["b", "c"]], size=4)
    ['<pad>', '<unk>', 'b', 'a']
    """
    counts = Counter(word for text in texts for word in text)
    return ["<pad>", "<unk>", *sorted(counts, key=lambda word: (-counts[word], word))[: size - 2]]


def encode(texts: list[list[str]], words: list[str], length: int) -> np.ndarray:
    """Rows of ``length`` tokens.

    >>> encode([["b", "z"]], ["<pad>", "<unk>", "b"], 4)
    array([[2, 1, 0, 0]])
    """
    number = {word: token for token, word in enumerate(words)}
    x = np.full((len(texts), length), PADDING, np.int64)
    for row, text in enumerate(texts):
        own = [number.get(word, UNKNOWN) for word in text[:length]]
        x[row, : len(own)] = own
    return x


def held_out(labels: np.ndarray, users: np.ndarray, fraction: float, seed: int) -> np.ndarray:
    """Which samples are for tests: of each user's n samples of a label ``fraction * n``, rounded up or down."""
    test = np.zeros(len(labels), bool)
    _, user = np.unique(users, return_inverse=True)
    for label in np.unique(labels):
        rng = generator(seed, Purpose.SPLIT, int(label))
        rows = rng.permutation(np.flatnonzero(labels == label))
        rows, picked = systematic_sample(rows, user, fraction * np.arange(len(rows) + 1), rng)
        test[rows[picked]] = True
    return test
