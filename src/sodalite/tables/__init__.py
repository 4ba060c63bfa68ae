"""Tables in files: reading them with their column names, encoding them as a model's inputs, and writing them."""

from .base import Dialect, Reader, Table, TableError
from .column_readings import MISSING, Options, Reading
from .columns import KINDS, Column
from .encoder import TableEncoder, encoded_rows
from .parquet import ParquetRows, Taken, is_on_disk, learn_on_disk, open_parquet
from .preprocessing import Encoded, Preprocessing
from .reading import format_of, open_table, read_table
from .training import Training, learn
from .writing import check_output, open_output, write_table

__all__ = [
    "KINDS",
    "MISSING",
    "Column",
    "Dialect",
    "Encoded",
    "Options",
    "ParquetRows",
    "Preprocessing",
    "Reader",
    "Reading",
    "Table",
    "TableEncoder",
    "TableError",
    "Taken",
    "Training",
    "check_output",
    "encoded_rows",
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
