"""Boosted trees as arrays: what a file keeps of them, checked, and as text that LightGBM reads.

LightGBM's reader trusts its text: a wrong number in it may end in a crash. So a file holds arrays, they are checked to
be trees, and the text is written from them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.optional import require
from ...core.types import Floats, Indices

NUMERIC = "2"  # LightGBM's code of a split "x <= threshold" for numbers that are never missing


@dataclass(frozen=True)
class Forest:
    """Trees, one after the other. A tree of L leaves has L - 1 splits, of which the first is its root."""

    n_leaves: Indices
    """Leaves of every tree."""
    feature: Indices
    """Input that each split compares with its `threshold`."""
    threshold: Floats
    left: Indices
    """Where rows go that do not exceed the threshold: to the split of that number in the tree, or for a negative number
    c to the leaf -c - 1."""
    right: Indices
    """Where the other rows go."""
    value: Floats
    """What each leaf adds to the prediction."""

    @classmethod
    def of(cls, booster: Any) -> Forest:
        """The trees of a LightGBM booster, up to the best number of rounds."""
        trees = list(_sections(booster.model_to_string(num_iteration=booster.best_iteration)))
        return cls(
            np.array([int(tree["num_leaves"]) for tree in trees], dtype=np.int64),
            _joined(trees, "split_feature", np.int64),
            _joined(trees, "threshold", np.float64),
            _joined(trees, "left_child", np.int64),
            _joined(trees, "right_child", np.int64),
            _joined(trees, "leaf_value", np.float64),
        )

    def take(self, first: int, last: int) -> Forest:
        """The trees from the number `first` to the one before `last`."""
        leaves = np.concatenate([[0], np.cumsum(self.n_leaves)])
        splits = leaves - np.arange(len(leaves))
        inner, outer = slice(splits[first], splits[last]), slice(leaves[first], leaves[last])
        return Forest(
            n_leaves=self.n_leaves[first:last],
            feature=self.feature[inner],
            threshold=self.threshold[inner],
            left=self.left[inner],
            right=self.right[inner],
            value=self.value[outer],
        )

    def check(self, d: int) -> None:
        """Refuse arrays that are no trees of d inputs; the ValueError says why."""
        if (self.n_leaves < 1).any():
            raise ValueError("its trees must have leaves")
        if len(self.value) != self.n_leaves.sum() or len(self.feature) != len(self.value) - len(self.n_leaves):
            raise ValueError("its trees must have one split less than leaves")
        if len(self.feature) and (self.feature.min() < 0 or self.feature.max() >= d):
            raise ValueError(f"its trees must compare inputs from 0 to {d - 1}")
        splits = np.cumsum(self.n_leaves - 1)
        for end, count in zip(splits, self.n_leaves - 1, strict=True):
            _check_tree(self.left[end - count : end], self.right[end - count : end])

    def booster(self, d: int) -> Any:
        """The booster of LightGBM that predicts by these trees, of d inputs, which are checked."""
        self.check(d)
        head = [
            "tree",
            "version=v4",
            "num_class=1",
            "num_tree_per_iteration=1",
            "label_index=0",
            f"max_feature_idx={d - 1}",
            "objective=regression",
            "feature_names=" + " ".join(f"Column_{number}" for number in range(d)),
            "feature_infos=" + " ".join(["none"] * d),
            "",
        ]
        trees = [self.take(number, number + 1)._text(number) for number in range(len(self.n_leaves))]
        text = "\n".join([*head, *trees, "end of trees", ""])
        return require("lightgbm", "trees").Booster(model_str=text)

    def _text(self, number: int) -> str:
        """One tree as LightGBM writes it."""
        count = len(self.feature)
        parts = {
            "num_leaves": count + 1,
            "num_cat": 0,
            "split_feature": _words(self.feature),
            "threshold": _words(self.threshold),
            "decision_type": " ".join([NUMERIC] * count),
            "left_child": _words(self.left),
            "right_child": _words(self.right),
            "leaf_value": _words(self.value),
            "is_linear": 0,
            "shrinkage": 1,
        }
        return "\n".join([f"Tree={number}", *(f"{name}={value}" for name, value in parts.items()), "", ""])


def _check_tree(left: Indices, right: Indices) -> None:
    """Refuse children that do not lead from the first split to every other split and leaf on one way each."""
    count = len(left)
    children = np.concatenate([left, right])
    leaves, splits = np.sort(-children[children < 0] - 1), np.sort(children[children >= 0])
    # A split comes after the one that leads to it, so that no way goes in circles.
    after = np.concatenate([left - np.arange(count), right - np.arange(count)])[children >= 0]
    complete = np.array_equal(leaves, np.arange(count + 1 if count else 0)) and np.array_equal(
        splits, np.arange(1, count)
    )
    if not complete or (after <= 0).any():
        raise ValueError("its trees must lead to every leaf on one way")


def _sections(text: str) -> Iterator[Mapping[str, str]]:
    """The fields of every tree in a text of LightGBM's."""
    for section in text.split("end of trees")[0].split("\nTree=")[1:]:
        lines = (line.partition("=") for line in section.splitlines()[1:] if line)
        yield {name: value for name, _, value in lines}


def _joined(trees: Sequence[Mapping[str, str]], name: str, dtype: type) -> Any:
    values = [value for tree in trees for value in tree[name].split()]
    return np.array([float(value) if dtype is np.float64 else int(value) for value in values], dtype=dtype)


def _words(values: Indices | Floats) -> str:
    return " ".join(repr(value) for value in values.tolist())
