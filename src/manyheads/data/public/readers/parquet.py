"""Hugging Face's tables of images: a column of encoded images, and columns of labels and the like."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from manyheads.core.errors import UserError
from manyheads.data.content import check_readable
from manyheads.data.public.readers.images import decode

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["read_image_table", "whole_numbers"]


def read_image_table(
    paths: Sequence[Path], *, image: str, columns: Sequence[str], side: int, color: bool
) -> dict[str, np.ndarray]:
    """The decoded images and the other columns of some parquet files, concatenated, by the names of the columns."""
    import pyarrow as pa

    parts: dict[str, list[np.ndarray]] = {name: [] for name in (image, *columns)}
    for path in paths:
        first = 0
        for batch in _batches(path, parts):
            encoded = batch.column(image)
            if pa.types.is_struct(encoded.type) and encoded.type.get_field_index("bytes") >= 0:
                encoded = encoded.field("bytes")
            if not (pa.types.is_binary(encoded.type) or pa.types.is_large_binary(encoded.type)):
                raise UserError(f"{path}: column {image} holds no images", given=str(encoded.type), allowed="binary")
            parts[image].append(decode(encoded.to_pylist(), side=side, color=color, where=str(path), first=first))
            for name in columns:
                if batch.column(name).null_count:
                    raise UserError(f"{path}: column {name} has a row without a value")
                parts[name].append(_values(batch.column(name), f"{path}: column {name}"))
            first += len(batch)
    if not parts[image]:
        raise UserError(f"{', '.join(map(str, paths))}: no rows")
    return {name: np.concatenate(found) for name, found in parts.items()}


def whole_numbers(labels: np.ndarray, where: str) -> np.ndarray:
    """Labels, checked to be class indices."""
    if labels.dtype.kind not in "iu" or labels.min(initial=0) < 0:
        raise UserError(f"{where}: labels must be 0, 1, 2, ...", given=f"{labels[0]}")
    return labels.astype(np.int64)


def _values(column: pa.Array, where: str) -> np.ndarray:
    """A column of integers or text."""
    import pyarrow as pa

    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise UserError(f"{where} holds neither whole numbers nor text", given=str(kind))
    return np.array(column.to_pylist())


def _batches(path: Path, columns: Sequence[str] | dict[str, list[np.ndarray]]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        check_readable(path)
        with pq.ParquetFile(path) as file:
            lacking = [c for c in columns if file.schema_arrow.names.count(c) != 1]
            if lacking:
                raise UserError(
                    f"{path} lacks a column",
                    given=", ".join(file.schema_arrow.names),
                    allowed=", ".join(columns),
                )
            yield from file.iter_batches(batch_size=4096, columns=list(columns))
    except (OSError, pa.ArrowException) as error:
        raise UserError(f"{path} is not a readable parquet file: {error}", fix="download it again") from None
