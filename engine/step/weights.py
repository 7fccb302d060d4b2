"""All of a model's weights in one buffer, as the step reads them."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.model.config import ModelConfig
from engine.step.packing import Bytes, packed_size, padded

QKV, OUTPUT, GATE_UP, DOWN = range(4)
"""The matrices of a layer: queries, keys and values as one; gate and up in turns of 16 rows."""

Shape = tuple[int, int]


@dataclass(frozen=True, slots=True)
class PackedWeights:
    """`table` has (offset in `data`, kind) for each matrix: the embedding, the head, then four a
    layer. `norms` (2 * layers + 1, width) are before the attention and the MLP of each layer, and
    before the head.
    """

    data: Bytes
    table: npt.NDArray[np.int64]
    norms: npt.NDArray[np.float32]

    @property
    def bytes_per_token(self) -> int:
        """Bytes that one token is multiplied with: all but an embedding that is not the head."""
        tied = self.table[0, 0] == self.table[1, 0]
        return len(self.data) - (0 if tied else int(self.table[1, 0]))


def matrix_count(config: ModelConfig) -> int:
    """Entries of the table."""
    return 2 + 4 * config.num_hidden_layers


def matrix_shape(number: int, config: ModelConfig) -> Shape:
    """Rows and columns of a matrix in the table, before they are padded."""
    hidden = config.hidden_size
    query = config.num_attention_heads * config.head_dim
    if number < 2:
        return config.vocab_size, hidden
    shapes = {
        QKV: (query + 2 * config.num_key_value_heads * config.head_dim, hidden),
        OUTPUT: (hidden, query),
        GATE_UP: (2 * padded(config.intermediate_size), hidden),
        DOWN: (hidden, config.intermediate_size),
    }
    return shapes[(number - 2) % 4]


def parameter_count(config: ModelConfig) -> int:
    """How many weights a token is multiplied with, without the embedding."""
    shapes = [matrix_shape(number, config) for number in range(1, matrix_count(config))]
    return sum(rows * columns for rows, columns in shapes)


def table_of(kinds: npt.NDArray[np.int64], config: ModelConfig) -> npt.NDArray[np.int64]:
    """The table for matrices of these kinds, one after the other; a tied head is the embedding."""
    table = np.zeros((matrix_count(config), 2), np.int64)
    table[:, 1] = kinds
    end = 0
    for number, kind in enumerate(kinds):
        if number == 1 and config.tie_word_embeddings:
            table[1] = table[0]
            continue
        table[number, 0] = end
        end += packed_size(int(kind), *matrix_shape(number, config))
    return table


def size_of(table: npt.NDArray[np.int64], config: ModelConfig) -> int:
    """Bytes of `data`."""
    return max(
        int(offset) + packed_size(int(kind), *matrix_shape(number, config))
        for number, (offset, kind) in enumerate(table)
    )
