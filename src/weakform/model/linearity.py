"""In which parameters a model is linear: detected, never declared.

`f` is jointly affine in a set L of parameters exactly if `∂²f/∂p_i∂p_j = 0` for all i, j in L.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from ..support.array_types import BoolArray
from .bounded_algebra import curved
from .function_table import Expr


class Affine:
    """What a model knows of its parameters.

    Attributes
    ----------
    parameters : tuple of str
    variants : tuple of Affine
        The model of each trajectory, where parameters are local.
    """

    parameters: tuple[str, ...]
    variants: tuple[Any, ...]

    @property
    def everything(self) -> tuple[Expr, ...]:
        """Every expression of the model."""
        raise NotImplementedError

    @cached_property
    def _curved(self) -> BoolArray:
        """Pairs of parameters with `∂²f/∂p_i∂p_j ≠ 0`, `(J, J)`."""
        every = self.variants or (self,)
        return curved([e for m in every for e in m.everything], self.parameters)

    def linear_among(self, names: Sequence[str]) -> tuple[str, ...]:
        """A largest set found among `names` in which, all other parameters being fixed, the equations are affine."""
        # A greedy independent set in the graph of curved pairs, the least entangled parameters first.
        curved = self._curved
        candidates = [self.parameters.index(name) for name in names]
        chosen: list[int] = []
        for i in sorted(candidates, key=lambda i: (int(curved[i, candidates].sum()), i)):
            if not curved[i, i] and not curved[i, chosen].any():
                chosen.append(i)
        return tuple(self.parameters[i] for i in sorted(chosen))

    @property
    def linear_parameters(self) -> tuple[str, ...]:
        """A largest set found of parameters in which, the others being fixed, the equations are affine."""
        return self.linear_among(self.parameters)

    @property
    def is_linear(self) -> bool:
        """Whether the equations are linear (affine) in all parameters."""
        return len(self.linear_parameters) == len(self.parameters)
