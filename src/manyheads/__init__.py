"""manyheads: personalized federated learning. One shared body, many personal heads."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from manyheads.api import *  # noqa: F403

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """All else comes from ``api`` when it is first asked for: the command line is thus there before torch is loaded."""
    if name.startswith("__") and name != "__all__":
        raise AttributeError(f"module 'manyheads' has no attribute {name!r}")
    api = import_module("manyheads.api")
    if name not in globals():  # the packages below are, now that api is imported
        try:
            globals()[name] = getattr(api, name)
        except AttributeError:
            raise AttributeError(f"module 'manyheads' has no attribute {name!r}") from None
    return globals()[name]


def __dir__() -> list[str]:
    return [*__getattr__("__all__"), "__version__"]
