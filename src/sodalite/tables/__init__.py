"""Tables in files: reading them with their column names, encoding them as a model's inputs, and writing them."""

from .base import Reader, Table, TableError
from .columns import KINDS, Column
from .parquet import ParquetRows, Taken, is_on_disk, learn_on_disk, open_parquet
from .preprocessing import MISSING, Encoded, Preprocessing, Training, learn
from .reading import format_of, open_table, read_table
from .writing import check_output, open_output, write_table

__all__ = [
    "KINDS",
    "MISSING",
    "Column",
    "Encoded",
    "ParquetRows",
    "Preprocessing",
    "Reader",
    "Table",
    "TableError",
    "Taken",
    "Training",
    "check_output",
    "format_of",
    "is_on_disk",
    "learn",
    "learn_on_disk",
    "open_output",
    "open_parquet",
    "open_table",
    "read_table",
    "write_table",
]
