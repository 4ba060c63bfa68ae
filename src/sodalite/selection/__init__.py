"""The greedy choice of the active rows: Algorithm 1 of the paper, at the speed of a matrix product.

A source of rows (`source`) is cut into shards (`shard`), which an executor holds (`executors`). The `loop` guesses the
next picks on a `panel` of candidates (docs/method.rst, `speculation`), or decides on them by look-ahead (`lookahead`),
makes a block of them (`proposal`) and has every shard add it and search for rows that score higher (`rivals`).
`state` has what the loop knows, `messages` what it and the shards send each other. `grow` puts these together, with a
`checkpoint`.
"""
