"""The arrays that a model file must have, by the sizes and the posterior that its JSON names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..core.types import Array
from .checks import RULES
from .error_bars import scale_shapes
from .fields import count, flag, mapping, wrong
from .formats import PosteriorFormat, Shapes, Sizes, fits
from .means import mean_shapes
from .posteriors import FORMATS, posterior_format


@dataclass(frozen=True)
class Layout:
    """The sizes of a model, how its posterior is stored, and the shapes of its arrays."""

    sizes: Sizes
    posterior: str
    """The name of the posterior."""
    format: PosteriorFormat
    shapes: Shapes

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Layout:
        """Return the layout that a file's JSON asks for."""
        n, m, d, q = (count(content[key], key, least=1) for key in ("n_rows", "n_active", "n_features", "n_targets"))
        if m > n:
            raise ValueError(f"it has {m} active rows, but only {n} rows")
        if flag(content["flat"], "flat") and q != 1:
            raise ValueError(f"flat must be false, since n_targets is {q}: predictions have two dimensions")
        about = mapping(content["posterior"], "posterior")
        name = about["name"]
        if not isinstance(name, str) or name not in FORMATS:
            raise wrong("the posterior", f"one of {', '.join(FORMATS)}", name)
        sizes, kind = Sizes(n, m, d, q), posterior_format(about)
        n_held = n if kind.holds_all_rows else m
        shapes: Shapes = {"centre": (d,), "X": (n_held, d), "Y": (n_held, q), "factor": (m, m)}
        shapes |= dict.fromkeys(("active", "rmse", "scores"), (m,)) | dict.fromkeys(("y_mean", "y_std"), (q,))
        shapes |= scale_shapes(about.get("scale"), d, q) | mean_shapes(content.get("mean"), sizes, n_held)
        return cls(sizes, name, kind, shapes | kind.shapes(about, sizes))

    def check(self, arrays: Mapping[str, tuple[str, tuple[int, ...]]]) -> None:
        """Refuse arrays, given by their types and shapes, that are not those of the layout."""
        different = sorted(set(arrays) ^ set(self.shapes))
        if different:
            name = different[0]
            raise ValueError(f"array {name!r} {'should not be there' if name in arrays else 'is missing'}")
        for name, (dtype, shape) in arrays.items():
            self._check_array(name, dtype, shape)

    def check_arrays(self, arrays: Mapping[str, Array]) -> None:
        """Refuse arrays whose types or shapes are not those of the layout."""
        self.check({name: (str(array.dtype), array.shape) for name, array in arrays.items()})

    def _check_array(self, name: str, dtype: str, shape: tuple[int, ...]) -> None:
        needed, dtypes = self.shapes[name], RULES[name].dtypes
        if dtype not in dtypes:
            raise ValueError(f"array {name!r} is of type {dtype}, where {' or '.join(dtypes)} is needed")
        if not fits(shape, needed):
            words = str(needed).replace("None", "any")
            raise ValueError(f"array {name!r} has shape {shape}, where {words} is needed")
        if needed[0] is None and shape[0] > self.sizes.n:
            raise ValueError(f"array {name!r} has {shape[0]} rows, but the model was fitted to {self.sizes.n}")
