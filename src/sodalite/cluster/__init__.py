"""Rows that stay on the workers of a Dask cluster.

`client` finds the cluster and waits for results, `collections` checks Dask arrays and dataframes, and `table` keeps the
rows on the workers and runs functions there. `executor` runs the shards of a selection on the workers, `objective`
evaluates J over all rows, `moments` computes the targets' means and spreads, `bundles` has the rows of the posterior
"local" searched by the workers, and `predict` predicts Dask collections.
"""
