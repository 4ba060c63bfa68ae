"""What is done with rows that live on a cluster: fits, J over all rows, and predictions."""
