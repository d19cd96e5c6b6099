"""Take the picture of a report's first screen that the documentation shows: ``python docs/make_screenshot.py FOLDER``.

FOLDER is that of a comparison. It needs Chromium.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from manyheads.report import write_report

PICTURE = Path(__file__).parent / "img" / "report.png"


def first_screen(report: Path) -> None:
    """Take a picture of the first screen of a report."""
    with tempfile.TemporaryDirectory() as profile:
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1280,800"]
        taken = [f"--user-data-dir={profile}", f"--screenshot={PICTURE}", "--virtual-time-budget=20000"]
        subprocess.run(["chromium", *flags, *taken, report.resolve().as_uri()], check=True)


if __name__ == "__main__":
    first_screen(write_report(Path(sys.argv[1])))
