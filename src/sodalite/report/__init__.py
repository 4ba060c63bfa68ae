"""A fitted model as a page for people: numbers first (`make_report`), then one HTML file (`to_html`)."""

from .build import Report, make_report
from .page import to_html

__all__ = ["Report", "make_report", "to_html"]
