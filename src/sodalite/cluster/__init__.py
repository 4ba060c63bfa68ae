"""Rows that stay on the workers of a Dask cluster.

`client` finds the cluster and puts its errors in words, `collections` checks Dask arrays and dataframes, and `rows` are
the rows on the workers. `executor` runs the shards of a selection there, `bundles` lays rows out by cells and searches
them, `local` is the posterior "local" with its rows in bundles, and `predict` predicts Dask collections.
"""
