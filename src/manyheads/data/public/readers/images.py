"""Encoded images (PNG, WebP, JPEG, ...) as arrays of bytes, [N, C, H, W]."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from manyheads.core.errors import UserError
from manyheads.core.files import kind_of
from manyheads.data.content import check_readable

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["IMAGE_ENDINGS", "class_folders", "decode", "decode_files"]

FORMATS = ("PNG", "WEBP", "JPEG", "BMP", "GIF", "PPM", "TIFF")
IMAGE_ENDINGS = (".png", ".webp", ".jpg", ".jpeg", ".bmp", ".gif", ".pgm", ".ppm", ".tif", ".tiff")


def decode(encoded: Sequence[bytes | None], *, side: int, color: bool, where: str, first: int = 0) -> np.ndarray:
    """Decode images of one known size. ``where`` and ``first`` (the row of the first image) are for error messages."""

    def pixels(row: int) -> np.ndarray:
        name, data = f"{where}: image {first + row}", encoded[row]
        if not data:
            raise UserError(f"{name} is empty")
        image = _open(io.BytesIO(data), name, color)
        if image.size != (side, side):
            raise UserError(f"{name} has another size", given=f"{image.width}x{image.height}", allowed=f"{side}x{side}")
        return np.asarray(image)

    return _in_parallel(pixels, len(encoded), side, color)


def decode_files(paths: Sequence[Path], *, side: int, color: bool) -> np.ndarray:
    """Decode image files of any size, resized to one."""
    from PIL.Image import Resampling

    def pixels(row: int) -> np.ndarray:
        image = _open(paths[row], str(paths[row]), color)
        return np.asarray(image if image.size == (side, side) else image.resize((side, side), Resampling.BILINEAR))

    return _in_parallel(pixels, len(paths), side, color)


def class_folders(folder: Path) -> tuple[list[Path], np.ndarray, list[str]]:
    """Images of a folder with one subfolder per class: their paths, their labels, and the sorted names of the classes."""
    inside = folder.iterdir() if kind_of(folder) == "folder" else ()
    names = sorted(p.name for p in inside if p.is_dir() and not p.name.startswith("."))
    paths: list[Path] = []
    labels: list[int] = []
    for label, name in enumerate(names):
        found = sorted(p for p in (folder / name).iterdir() if p.suffix.lower() in IMAGE_ENDINGS)
        if not found:
            raise UserError(f"{folder / name} holds no image", allowed=", ".join(IMAGE_ENDINGS))
        paths += found
        labels += [label] * len(found)
    if not paths:
        raise UserError(
            f"{folder} holds no folder of images",
            fix=f"put the images of each class into a folder of its own: {folder}/cat/1.png",
        )
    return paths, np.array(labels, np.int64), names


def _open(file: io.BytesIO | Path, name: str, color: bool) -> Image.Image:
    from PIL import Image

    try:
        if isinstance(file, Path):
            check_readable(file)
        with Image.open(file, formats=FORMATS) as image:
            return _eight_bits(image, name).convert("RGB" if color else "L")
    except UserError:
        raise
    except Exception as error:  # a broken image may fail in any way
        raise UserError(f"{name} cannot be decoded: {error or type(error).__name__}") from None


def _eight_bits(image: Image.Image, name: str) -> Image.Image:
    """16 bits to 8: Pillow's own conversion clips values above 255."""
    from PIL import Image

    if image.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.mode in ("I", "F"):
        raise UserError(f"{name} has pixels of 32 bits", allowed="8 or 16 bits")
    return image


def _in_parallel(pixels: Callable[[int], np.ndarray], count: int, side: int, color: bool) -> np.ndarray:
    """Decode in threads, since Pillow releases the GIL."""
    made = np.empty((count, 3 if color else 1, side, side), np.uint8)

    def fill(rows: range) -> None:
        for row in rows:
            image = pixels(row)
            made[row] = image.transpose(2, 0, 1) if color else image

    with ThreadPoolExecutor() as threads:
        list(threads.map(fill, (range(i, min(i + 256, count)) for i in range(0, count, 256))))
    return made
