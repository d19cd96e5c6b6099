"""Reports: one self-contained HTML page, and figures, from the files of a comparison or of runs."""

from manyheads.report.page import page, write_report

__all__ = ["page", "write_report"]
