"""Experiments that the command line runs: frozen data first, then text and figures that read it."""
