"""Tables in files: reading them with their column names, encoding them as a model's inputs, and writing them."""

from .base import Dialect, Reader, Table
from .categories import Means, OneHot, Points, Ranks
from .column import MISSING, Column, Options, Reading
from .dates import Dates, Times
from .encoder import TableEncoder, encoded_rows
from .numbers import Numbers
from .parquet import ParquetRows, Taken, is_on_disk, learn_on_disk, open_parquet
from .places import Places
from .preprocessing import Encoded, Preprocessing
from .reading import format_of, open_table, read_table
from .training import Training, learn
from .writing import check_output, open_output, write_table

__all__ = [
    "MISSING",
    "Column",
    "Dates",
    "Dialect",
    "Encoded",
    "Means",
    "Numbers",
    "OneHot",
    "Options",
    "ParquetRows",
    "Places",
    "Points",
    "Preprocessing",
    "Ranks",
    "Reader",
    "Reading",
    "Table",
    "TableEncoder",
    "Taken",
    "Times",
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
