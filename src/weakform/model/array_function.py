"""The right-hand side of a model and its Jacobians as functions of plain arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from ..support.array_types import FloatArray
from ..support.errors import ModelError

if TYPE_CHECKING:
    from .model import Model


ParameterValues = ArrayLike | Mapping[str, float]
"""Values of the parameters: an array in the order of their names, or a mapping from names to values."""


class Function:
    """The right-hand side `f(t, u, p)` of a model, for use with any solver.

    Parameters
    ----------
    model : Model
        A model without switches; `ModelError` is raised for a model with switches.

    Attributes
    ----------
    states, parameters, inputs : tuple of str
        Names, in the order of the arrays.

    Examples
    --------
    >>> import weakform as wf
    >>> f = wf.Model.from_text("x' = -k*x").function()
    >>> print(f(0.0, [2.0], [3.0]), f.by_states(0.0, [2.0], [3.0]), f.by_parameters(0.0, [2.0], {"k": 3.0}))
    [-6.] [[-3.]] [[-2.]]
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.states, self.parameters, self.inputs = model.states, model.parameters, model.inputs
        if model.switches:
            raise ModelError("A model with switches is not one smooth function; solve it with simulate(...).")

    def __repr__(self) -> str:
        driven = f", inputs ({', '.join(self.inputs)})" if self.inputs else ""
        return f"<f(t, u, p) with u = ({', '.join(self.states)}), p = ({', '.join(self.parameters)}){driven}>"

    def __call__(self, t: ArrayLike, u: ArrayLike, p: ParameterValues, inputs: ArrayLike = ()) -> FloatArray:
        """Evaluate `f(t, u, p)`.

        Parameters
        ----------
        t : float or array_like, (n,)
        u : array_like, (D,) or (n, D)
        p : array_like, (J,), or mapping of str to float
        inputs : array_like, (I,) or (n, I)

        Returns
        -------
        ndarray, (D,) or (n, D)
            The derivatives of the states, in the shape of `u`.

        Raises
        ------
        ModelError
            If a shape is wrong, or a parameter has no value.
        """
        rows = self._check_arguments(t, u, p, inputs)
        return self._drop_row_axis(self.model.build_map("f")(*rows), u)

    def by_states(self, t: ArrayLike, u: ArrayLike, p: ParameterValues, inputs: ArrayLike = ()) -> FloatArray:
        """Return the Jacobian `∂f/∂u`, `(D, D)` for `u` `(D,)`, or `(n, D, D)` for `u` `(n, D)`."""
        return self._drop_row_axis(self.model.build_map("f").linearise(*self._check_arguments(t, u, p, inputs))[1], u)

    def by_parameters(self, t: ArrayLike, u: ArrayLike, p: ParameterValues, inputs: ArrayLike = ()) -> FloatArray:
        """Return the Jacobian `∂f/∂p`, `(D, J)` for `u` `(D,)`, or `(n, D, J)` for `u` `(n, D)`."""
        return self._drop_row_axis(self.model.build_map("f").linearise(*self._check_arguments(t, u, p, inputs))[2], u)

    def _drop_row_axis(self, values: FloatArray, u: ArrayLike) -> FloatArray:
        """Drop the leading axis of `values` `(n, …)` if `u` was a single state `(D,)`."""
        return values[0] if np.ndim(u) == 1 else values

    def _check_arguments(
        self, t: ArrayLike, u: ArrayLike, p: ParameterValues, inputs: ArrayLike
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray | None]:
        """Check the arguments; return times `(n,)`, states `(n, D)`, parameters `(J,)`, inputs `(n, I)` or None."""
        if isinstance(p, Mapping):
            missing = [name for name in self.parameters if name not in p]
            if missing:
                raise ModelError(
                    f"No value for {missing[0]!r}; expected values for the parameters {', '.join(self.parameters)}."
                )
            p = [float(p[name]) for name in self.parameters]
        try:
            rows, values = np.atleast_2d(np.asarray(u, dtype=float)), np.asarray(p, dtype=float)
            input_values = np.asarray(inputs, dtype=float)
            times = np.array(np.broadcast_to(np.asarray(t, dtype=float), rows.shape[:1]))
        except (TypeError, ValueError):
            raise ModelError("t, u, p and inputs must be numbers, with one time for each row of u.") from None
        expected = (len(self.states), len(self.parameters), len(self.inputs))
        received = (rows.shape[-1], values.size, input_values.shape[-1] if input_values.ndim else 1)
        if expected != received:
            raise ModelError(
                "Expected {} states, {} parameters and {} inputs; ".format(*expected)
                + "received {}, {} and {}.".format(*received)
            )
        input_rows = np.array(np.broadcast_to(input_values, (len(rows), len(self.inputs)))) if self.inputs else None
        return times, rows, values, input_rows
