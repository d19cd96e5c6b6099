"""Stand-ins for packages that another library imports and that a benchmark of it never uses."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from unittest import mock

__all__ = ["stand_in"]


def stand_in(package: str, *modules: str) -> None:
    """Mocks of a package and of its ``modules``, if it is not installed."""
    if find_spec(package) is None:
        for name in (package, *(f"{package}.{module}" for module in modules)):
            sys.modules[name] = mock.MagicMock(__spec__=ModuleSpec(name, None))
