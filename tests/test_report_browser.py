"""The report in a real browser: it loads quietly, its slider moves, and it can be read on a phone and in the dark.

The pictures that it takes are kept in tests/screenshots, for a person to look at.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import make_friedman1
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from sodalite import GreedyGPRegressor
from sodalite.hyperparameters import Round
from sodalite.report import make_report, to_html

SCREENSHOTS = Path(__file__).parent / "screenshots"
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
NAMES = ["one", "two", "eight"]
DESKTOP, PHONE = {"width": 1200, "height": 900}, {"width": 375, "height": 812}


def chromium() -> str | None:
    """Where the system's browser is."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def find_browser() -> str:
    """The same; without one the tests are skipped, but not where everything should be there."""
    path = chromium()
    if path is None:
        reason = "there is no Chromium: install it (apt-get install chromium) to look at reports in a browser"
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return path


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    path = find_browser()
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield running
        running.close()


def test_without_a_browser_tests_are_skipped_but_fail_where_it_should_be_there(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="there is no Chromium"):
        find_browser()
    monkeypatch.delenv("CI")
    with pytest.raises(pytest.skip.Exception, match="there is no Chromium"):
        find_browser()


def one():
    random = np.random.default_rng(0)
    X = random.uniform(0, 20, (300, 1))
    return X, X[:, 0] * np.sin(X[:, 0]) + random.normal(scale=1.4, size=300), RBF(1.4) + WhiteKernel(0.03)


def two():
    random = np.random.default_rng(0)
    X = random.uniform(-2, 2, (600, 2))
    y = np.sin(2 * X[:, 0]) * np.cos(X[:, 1]) + random.normal(scale=0.1, size=600)
    return X, y, ConstantKernel(1.0) * RBF([0.8, 1.5]) + WhiteKernel(0.02)


def eight():
    X, y = make_friedman1(800, n_features=8, noise=1.0, random_state=0)
    scales = [0.8, 0.8, 0.9, 3.0, 4.0, 50.0, 80.0, 100.0]
    return X, y, ConstantKernel(10.0) * RBF(scales) + WhiteKernel(0.05)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """A report for one, two and eight inputs."""
    folder = tmp_path_factory.mktemp("pages")
    for name, make in (("one", one), ("two", two), ("eight", eight)):
        X, y, kernel = make()
        model = GreedyGPRegressor(kernel, n_active=40, hyperparameters="fixed", random_state=0).fit(X, y)
        rounds = [(-1.4, True), (-1.1, True), (-0.9, True), (-0.95, False), (-0.88, True), (-0.9, False)]
        model.rounds_ = tuple(Round("round", model.kernel_, value, kept, 0.5) for value, kept in rounds)
        (folder / f"{name}.html").write_text(to_html(make_report(model)), encoding="utf-8")
    return folder


class Look:
    """A page that is open, and what it has said and asked for."""

    def __init__(self, page, url):
        self.page, self.url, self.said, self.asked = page, url, [], []
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("request", lambda request: self.asked.append(request.url))
        page.goto(url)
        page.wait_for_selector("html[data-ready=true]", timeout=120_000)

    def shot(self, name):
        SCREENSHOTS.mkdir(exist_ok=True)
        self.page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)

    def wait(self, expression, value):
        """Until an expression has a value; the page's policy forbids playwright's own way of asking."""
        for _ in range(600):
            if self.page.evaluate(expression) == value:
                return
            self.page.wait_for_timeout(50)
        pytest.fail(f"{expression} is {self.page.evaluate(expression)!r}, not {value!r}")


@pytest.fixture(scope="module")
def desktop(browser, pages):
    """Every page, opened once."""
    made = {}
    for name in NAMES:
        page = browser.new_context(viewport=DESKTOP, color_scheme="light").new_page()
        made[name] = Look(page, (pages / f"{name}.html").as_uri())
    return made


@pytest.mark.parametrize("name", NAMES)
def test_the_page_loads_quietly_and_asks_for_nothing(desktop, name):
    seen = desktop[name]
    seen.shot(f"{name}-desktop")
    assert seen.said == []
    assert seen.asked == [seen.url]
    drawn = seen.page.eval_on_selector_all(".plot", "all => all.map(one => one.querySelectorAll('.main-svg').length)")
    assert len(drawn) >= 7
    assert min(drawn) > 0


@pytest.mark.parametrize(("name", "key"), [("one", "view"), ("two", "mean"), ("two", "half")])
def test_the_slider_moves_and_the_picture_changes(desktop, name, key):
    seen = desktop[name]
    page, plot, slider = seen.page, seen.page.locator(f"#{key}"), seen.page.locator("#stage")
    slider.focus()
    page.keyboard.press("End")
    count = f"document.getElementById('{key}').data.find(trace => trace.meta === 'so far').x.length"
    seen.wait(count, 40)
    before = plot.screenshot()
    page.keyboard.press("Home")
    seen.wait(count, 1)
    assert page.locator("#stage-label").text_content() == "1 active row of 40"
    assert slider.get_attribute("aria-valuetext") == "1 active row of 40"
    first = plot.screenshot()
    page.keyboard.press("ArrowRight")
    seen.wait(count, 2)
    assert len({before, first, plot.screenshot()}) == 3
    slider.fill("4")
    seen.wait(count, 5)
    seen.shot(f"{name}-stage-5")
    assert seen.said == []


def test_play_goes_on_by_itself_and_stops(desktop):
    seen = desktop["one"]
    seen.page.locator("#stage").fill("0")
    seen.page.click("#play")
    assert seen.page.locator("#play").text_content() == "Pause"
    seen.wait("Number(document.getElementById('stage').value) >= 2", True)
    seen.page.click("#play")
    assert seen.page.locator("#play").text_content() == "Play"
    assert seen.page.evaluate("Number(document.getElementById('stage').value)") < 40


@pytest.mark.parametrize("name", NAMES)
def test_dark_mode_is_dark_and_the_plots_follow(desktop, name):
    seen = desktop[name]
    background = "getComputedStyle(document.body).backgroundColor"
    text = "[...document.querySelectorAll('.plot .xtitle')].map(one => getComputedStyle(one).fill)"
    bright = f"{text}.every(one => one.match(/\\d+/g).every(part => part > 180))"
    assert brightness(seen.page.evaluate(background)) > 200
    assert max(map(brightness, seen.page.evaluate(text))) < 100
    seen.page.emulate_media(color_scheme="dark")
    seen.wait(bright, True)
    assert brightness(seen.page.evaluate(background)) < 60
    seen.shot(f"{name}-dark")
    seen.page.emulate_media(color_scheme="light")
    seen.wait(bright, False)
    assert seen.said == []


@pytest.mark.parametrize("name", NAMES)
def test_a_phone_needs_no_scrolling_sideways(browser, pages, name):
    with browser.new_context(viewport=PHONE, device_scale_factor=2, is_mobile=True, has_touch=True) as context:
        seen = Look(context.new_page(), (pages / f"{name}.html").as_uri())
        seen.shot(f"{name}-phone")
        width, room = seen.page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
        assert width <= room == PHONE["width"]
        wide = "all => all.filter(one => one.getBoundingClientRect().right > window.innerWidth + 1).map(one => one.id)"
        assert seen.page.eval_on_selector_all(".plot, .plot svg, h1, h2, p, figure", wide) == []
        assert seen.said == []


def brightness(colour: str) -> float:
    return float(np.mean([int(part) for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]))
