"""Tables in files: reading them with their column names, encoding them as a model's inputs, and writing them.

There are four ideas. A `Reader` is an open file or source, whatever its format: names of columns, and rows as record
batches of Arrow; for files of text and sheets of Excel, one `Layout` says where in it the table is. `Values` are one
column of a file or frame: numbers or, of texts, the different ones and which of them each row has. What Arrow casts,
numbers and ISO dates, is taken as it is; other texts are taken apart by a pattern, for all of them at once. A `Column`
is a transformer: it says "mine" or "not mine" to the values of a column, by a `Reading` that explains itself in a
sentence, and makes numbers of them and inputs of these; what is not of its kind is refused in one place,
`Column.numbers`. `Preprocessing` is the columns that a model uses: `learn_columns` finds it for files
(`learn`) and frames (`TableEncoder`) alike, and it is kept with the model.
"""

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
