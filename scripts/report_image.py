"""The picture of a report in the documentation, docs/images/report.png: the embedded data set's, at an early stage.

Needs the extra `test` and Chromium: `make browser`, then `.venv/bin/python -m scripts.report_image`.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import sync_playwright
from scripts.chromium import FLAGS, find_chromium

from sodalite import load
from sodalite.cli._progress import Display
from sodalite.cli.fit import run
from sodalite.report import make_report, to_html

TARGET = Path(__file__).parents[1] / "docs" / "images" / "report.png"


def main() -> None:
    """Fit, draw, open and look."""
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        run(None, None, f"{folder}/model", parameters={"n_active": 200}, shown=Display())
        page = Path(folder, "model.html")
        page.write_text(to_html(make_report(load(f"{folder}/model"))), encoding="utf-8")
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=FLAGS)
        tab = browser.new_page(viewport={"width": 1100, "height": 1330}, color_scheme="light")
        tab.goto(page.as_uri())
        tab.wait_for_selector("html[data-ready=true]")
        tab.locator("#stage").fill("18")
        tab.locator("#stage").blur()
        tab.wait_for_timeout(500)
        tab.screenshot(path=TARGET)
        browser.close()
    print(f"{TARGET} was written")


if __name__ == "__main__":
    main()
