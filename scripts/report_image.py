"""The picture of a report in the documentation, docs/images/report.png: the embedded data set's, at an early stage.

Needs the extra `test` and Chromium: `make browser`, then `.venv/bin/python -m scripts.report_image`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from subprocess import run
from tempfile import TemporaryDirectory

from playwright.sync_api import sync_playwright
from scripts.chromium import FLAGS, find_chromium

TARGET = Path(__file__).parents[1] / "docs" / "images" / "report.png"


def main() -> None:
    """Fit, draw, open and look."""
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        for command in (["fit", "-n", "200", "-o", "model"], ["report", "model", "-o", "model.html"]):
            run([sys.executable, "-m", "sodalite", *command], cwd=folder, check=True)
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=FLAGS)
        tab = browser.new_page(viewport={"width": 1100, "height": 2150}, color_scheme="light")
        tab.goto(Path(folder, "model.html").as_uri())
        tab.wait_for_selector("html[data-ready=true]")
        tab.locator("#stage").fill("18")
        tab.locator("#stage").blur()
        tab.wait_for_timeout(500)
        tab.screenshot(path=TARGET)
        browser.close()
    print(f"{TARGET} was written")


if __name__ == "__main__":
    main()
