"""From rows and parameters to a fitted model: check, scale, find the kernel, choose rows, condition."""
