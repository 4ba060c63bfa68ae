"""Rows that live on the workers of a Dask cluster: what is known of them here, and what is done with them there.

`client` finds the cluster and waits for its answers, `collections` reads Dask arrays and dataframes, `table` keeps the
rows on the workers and brings functions to them, `evidence` and `objective` are sums over them, and `prediction` is
for new rows. The choice of rows is that of one machine, with other shards: `sodalite.executors.dask`.
"""
