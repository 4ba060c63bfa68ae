"""Rows that live on the workers of a Dask cluster.

`client` finds the cluster and waits for its answers, `collections` reads Dask arrays and dataframes, `table` keeps the
rows on the workers and brings functions to them. What is made of them is elsewhere: the choice of rows is that of one
machine with other shards (`sodalite.cluster.executor`); predictions are in `sodalite.cluster.predict`.
"""
