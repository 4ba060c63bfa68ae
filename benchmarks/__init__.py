"""Speed and accuracy, as a command prints them. Ratios are of times measured in one run; nothing fails on a time."""
