"""The greedy choice of the active rows: Algorithm 1 of the paper, at the speed of a matrix product.

The rows are cut into shards (`shard`), which an executor holds (`executors`); `loop` picks among them, by candidates
that it guesses at (`panel`) or by looking ahead (`lookahead`). `grow` puts these together.
"""
