"""What a coordinator decides about a study, and what each site decides about itself."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from manyheads.core.contract import Algorithm
from manyheads.core.errors import UserError
from manyheads.core.settings import settings

__all__ = ["ACTIONS", "Action", "Policy", "Rules"]

Action = Literal["describe", "statistics", "work", "finish", "validate", "tell", "conclude"]
ACTIONS: tuple[Action, ...] = ("describe", "statistics", "work", "finish", "validate", "tell", "conclude")
"""what a site may be asked to do: describe its table, give statistics of training rows, train and
evaluate, keep its final model; of a comparison, score models on validation samples and on test samples, keep its page"""


@settings
class Rules:
    """How the coordinator deals with sites."""

    min_sites: Annotated[int, Field(ge=1)] = 2
    """fewest sites with which a round counts; with fewer, the run ends"""
    gather: Annotated[float, Field(ge=0)] = 60.0
    """seconds to wait for all sites at the start; then it goes on with those that are there"""
    wait: Annotated[float, Field(gt=0)] = 600.0
    """seconds to wait for so many sites to be there, at the start and after a round that too few answered"""
    deadline: Annotated[float, Field(gt=0)] = 600.0
    """seconds that sites have to answer; who is late is left out of that round"""
    max_weight: Annotated[float, Field(gt=0)] = 1e7
    """largest weight (number of training samples) that a site may claim"""
    max_megabytes: Annotated[float, Field(gt=0)] = 1024.0
    """largest reply of a site"""


@settings
class Policy:
    """What a site allows, in its own ``site.toml``."""

    min_count: Annotated[int, Field(ge=1)] = 5
    """no count of fewer rows than this leaves the site, nor what so few rows say"""
    min_rows: Annotated[int, Field(ge=1)] = 20
    """fewest rows of the table with which the site takes part"""
    label_counts: bool = True
    """whether the numbers of rows of each class may leave"""
    actions: tuple[Action, ...] = ACTIONS
    """what the site does when it is asked"""
    own_code: tuple[str, ...] = ()
    """import paths of classes besides manyheads' own (package.module:Class) that a study may name"""

    def require(self, algorithm: Algorithm) -> None:
        """An error if uploads of the method tell more of single classes than the site allows."""
        fewest = algorithm.fewest_told
        if fewest is not None and not self.label_counts:
            raise UserError(
                f"{algorithm.name} tells the number of rows of each class, which the site's policy withholds",
                fix="use another method, or label_counts = true in site.toml",
            )
        if fewest is not None and fewest < self.min_count:
            raise UserError(
                f"{algorithm.name} tells of classes with fewer rows than the site's min_count",
                given=f"fewest = {fewest}",
                allowed=f"{self.min_count} or more",
                fix=f"fewest = {self.min_count} in [algorithm] of study.toml",
            )
