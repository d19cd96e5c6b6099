"""Reports: from the files of a comparison or of runs to one self-contained page, and figures."""

from manyheads.report.page import page, write_report

__all__ = ["page", "write_report"]
