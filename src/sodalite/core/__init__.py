"""Tools of every other part of the package: types, threads, files, memory, validation. Nothing here is about models."""
