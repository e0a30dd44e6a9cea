"""Detection of the parameters in which a model is linear.

`f` is jointly affine in a set L of parameters exactly if `∂²f/∂p_i∂p_j = 0` for all i, j in L. Linearity is detected
from the expressions and is never declared by the user.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from ..support.array_types import BoolArray
from .bounded_algebra import find_curved_pairs
from .function_table import Expr

if TYPE_CHECKING:
    from .model import Model


class LinearityDetection:
    """The part of a model that detects in which parameters it is linear.

    Attributes
    ----------
    parameters : tuple of str, (J,)
    variants : tuple of Model
        The model of each trajectory if parameters are local, else empty.
    """

    parameters: tuple[str, ...]
    variants: tuple[Model, ...]

    @property
    def all_expressions(self) -> tuple[Expr, ...]:
        """All expressions of the model."""
        raise NotImplementedError

    @cached_property
    def _curved_pairs(self) -> BoolArray:
        """Mask `(J, J)` of the pairs of parameters with `∂²f/∂p_i∂p_j ≠ 0`."""
        models = self.variants or (self,)
        return find_curved_pairs([e for m in models for e in m.all_expressions], self.parameters)

    def linear_among(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return parameters among `names` in which the equations are affine if all other parameters are fixed.

        The set cannot be extended by another of the names, but there may be a larger one.

        Parameters
        ----------
        names : sequence of str
            Names of parameters of the model.

        Returns
        -------
        tuple of str
            In the order of the model's parameters.
        """
        # A greedy independent set in the graph of curved pairs: parameters with the fewest such pairs come first.
        is_curved = self._curved_pairs
        candidates = [self.parameters.index(name) for name in names]
        chosen: list[int] = []
        for i in sorted(candidates, key=lambda i: (int(is_curved[i, candidates].sum()), i)):
            if not is_curved[i, i] and not is_curved[i, chosen].any():
                chosen.append(i)
        return tuple(self.parameters[i] for i in sorted(chosen))

    @property
    def linear_parameters(self) -> tuple[str, ...]:
        """The parameters in which the equations are affine if the others are fixed; see `linear_among`."""
        return self.linear_among(self.parameters)

    @property
    def is_linear(self) -> bool:
        """Whether the equations are affine in all parameters together."""
        return len(self.linear_parameters) == len(self.parameters)
