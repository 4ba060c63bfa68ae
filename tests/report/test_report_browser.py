"""The report in a real browser: it loads quietly, its slider moves, and it can be read on a phone and in the dark.

The pictures that it takes are kept in tests/screenshots, for a person to look at.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from scripts.chromium import FLAGS, find_chromium
from sklearn.datasets import make_friedman1
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from helpers import campaign
from sodalite import GreedyGPRegressor
from sodalite.hyperparameters import Round
from sodalite.report import make_report, to_html

SCREENSHOTS = Path(__file__).parents[1] / "screenshots"
NAMES = ["one", "two", "eight"]
DESKTOP, PHONE = {"width": 1200, "height": 900}, {"width": 375, "height": 812}


def find_browser() -> str:
    """Where the browser is; without one the tests are skipped, but not where everything should be there."""
    path = find_chromium()
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


def test_points_do_not_hide_the_curve_on_a_phone(browser, tmp_path):
    """Two thousand rows are thinned, and lie behind the curve."""
    random = np.random.default_rng(0)
    X = random.uniform(0, 20, (2000, 1))
    y = X[:, 0] * np.sin(X[:, 0]) + random.normal(scale=1.4, size=2000)
    model = GreedyGPRegressor(RBF(1.4) + WhiteKernel(0.03), n_active=40, hyperparameters="fixed", random_state=0)
    (tmp_path / "many.html").write_text(to_html(make_report(model.fit(X, y))), encoding="utf-8")
    counts = "document.getElementById('view').data.map(trace => [trace.name, trace.x.length, trace.marker?.size ?? 0])"
    with browser.new_context(viewport={"width": 390, "height": 844}, is_mobile=True) as context:
        seen = Look(context.new_page(), (tmp_path / "many.html").as_uri())
        seen.shot("many-phone")
        names, lengths, sizes = zip(*seen.page.evaluate(counts), strict=True)
    assert lengths[names.index("rows")] <= 150
    assert sizes[names.index("rows")] < 3
    assert names.index("prediction") > max(names.index("rows"), names.index("rows kept"))


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

    def __init__(self, page, url, ready=True):
        self.page, self.url, self.said, self.asked = page, url, [], []
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("request", lambda request: self.asked.append(request.url))
        page.goto(url)
        if ready:
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
    unfolded = [key for key in seen.page.evaluate(ALL) if key not in seen.page.evaluate(FOLDED)]
    assert len(unfolded) >= 3
    assert seen.page.evaluate(DRAWN) == unfolded


def test_folded_figures_are_drawn_when_they_are_opened(opened):
    seen = opened("one.html", "")
    seen.wait("document.documentElement.dataset.ready", "true")
    assert "calibration" in seen.page.evaluate(FOLDED)
    seen.page.click("text=Are the error bars honest?")
    seen.wait(f"{DRAWN}.includes('calibration')", True)
    assert seen.page.evaluate("document.getElementById('calibration').querySelector('.main-svg').clientWidth") > 300
    assert "rmse" not in seen.page.evaluate(DRAWN)
    assert seen.said == []


@pytest.mark.parametrize(("name", "key"), [("one", "view"), ("two", "mean"), campaign("two", "half")])
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
    assert page.locator("#stage-label").text_content() == "1 of 40 rows kept"
    assert slider.get_attribute("aria-valuetext") == "1 of 40 rows kept"
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


@pytest.mark.parametrize("name", ["one", campaign("two"), campaign("eight")])
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


@pytest.mark.parametrize("name", ["eight", campaign("one"), campaign("two")])
def test_a_phone_needs_no_scrolling_sideways(browser, pages, name):
    with browser.new_context(viewport=PHONE, device_scale_factor=2, is_mobile=True, has_touch=True) as context:
        seen = Look(context.new_page(), (pages / f"{name}.html").as_uri())
        seen.shot(f"{name}-phone")
        width, room = seen.page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
        assert width <= room == PHONE["width"]
        wide = "all => all.filter(one => one.getBoundingClientRect().right > window.innerWidth + 1).map(one => one.id)"
        assert seen.page.eval_on_selector_all(".plot, .plot svg, h1, h2, p, figure", wide) == []
        assert seen.said == []


# A page that is never painted, so that figures wait; and one that keeps the order in which they are drawn.
NEVER_PAINTED = "window.requestAnimationFrame = () => 0;"
ORDER = """
window.order = [];
new MutationObserver((changes) => {
  for (const { target } of changes) {
    const plot = target.nodeType === 1 && target.closest(".plot");
    if (plot && plot.querySelector(".main-svg") && !order.includes(plot.id)) order.push(plot.id);
  }
}).observe(document, { subtree: true, childList: true });
"""
DRAWN = "[...document.querySelectorAll('.plot')].filter(one => one.querySelector('.main-svg')).map(one => one.id)"
FOLDED = "[...document.querySelectorAll('details:not([open]) .plot')].map(one => one.id)"
ALL = "[...document.querySelectorAll('.plot')].map(one => one.id)"


@pytest.fixture
def opened(browser, pages):
    """Opens a page with a script that runs before its own, and does not wait for the figures."""
    contexts = []

    def make(name, script, viewport=DESKTOP):
        contexts.append(browser.new_context(viewport=viewport, color_scheme="light"))
        page = contexts[-1].new_page()
        page.add_init_script(script)
        file, _, place = name.partition("#")
        return Look(page, f"{(pages / file).as_uri()}#{place}", ready=False)

    yield make
    for context in contexts:
        context.close()


def test_the_words_are_painted_before_plotly_runs(opened):
    kept = "set: (made) => { window.ran = performance.now(); window.made = made; }, get: () => window.made"
    seen = opened("eight.html", f"Object.defineProperty(window, 'Plotly', {{ {kept} }});")
    seen.wait("document.documentElement.dataset.ready", "true")
    assert seen.page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime < window.ran")
    assert seen.said == []


def test_the_words_and_the_slider_need_no_figure(opened):
    seen = opened("two.html", NEVER_PAINTED, viewport={"width": 1200, "height": 200})
    for words in ("h1", ".tiles dd >> nth=0", "figcaption >> nth=0", "#stage-label"):
        assert seen.page.locator(words).is_visible()
        assert seen.page.locator(words).text_content()
    assert seen.page.evaluate("[window.Plotly === undefined, document.querySelector('.main-svg')]") == [True, None]
    seen.page.evaluate(
        "() => { const it = document.getElementById('stage'); it.value = 4; it.dispatchEvent(new Event('input')); }"
    )
    seen.wait(DRAWN, ["mean", "half"])
    for key in ("mean", "half"):
        shown = f"document.getElementById('{key}').data.find(trace => trace.meta === 'so far').x.length"
        assert seen.page.evaluate(shown) == 5
    assert seen.said == []


@pytest.mark.campaign
def test_play_goes_on_while_other_figures_wait(opened):
    seen = opened("one.html", NEVER_PAINTED, viewport={"width": 1200, "height": 200})
    seen.page.evaluate("document.getElementById('play').click()")
    seen.wait("Number(document.getElementById('stage').value) >= 2", True)
    seen.page.evaluate("document.getElementById('play').click()")
    assert seen.page.evaluate(DRAWN) == ["view"]


def test_figures_are_drawn_from_the_top(opened):
    seen = opened("eight.html", ORDER)
    seen.wait("document.documentElement.dataset.ready", "true")
    folded = seen.page.evaluate(FOLDED)
    assert seen.page.evaluate("window.order") == [key for key in seen.page.evaluate(ALL) if key not in folded]


def test_a_printed_page_has_every_figure(opened):
    seen = opened("eight.html", NEVER_PAINTED)
    seen.page.pdf()
    assert seen.page.evaluate(DRAWN) == seen.page.evaluate(ALL)


@pytest.mark.campaign
def test_a_figure_takes_its_room_before_it_is_drawn(opened):
    seen = opened("eight.html", NEVER_PAINTED)
    places = "[...document.querySelectorAll('figure, h2')].map(one => Math.round(one.getBoundingClientRect().top))"
    before = seen.page.evaluate(places)
    seen.page.evaluate("() => { window.dispatchEvent(new Event('beforeprint')); }")
    assert seen.page.evaluate(DRAWN) == seen.page.evaluate(ALL)
    on_paper = seen.page.evaluate(
        "[...document.querySelectorAll('.main-svg')].map(one => one.getBoundingClientRect().right)"
    )
    assert max(on_paper) <= 44 * 16 + seen.page.evaluate("document.body.getBoundingClientRect().left")
    seen.page.evaluate("() => { window.dispatchEvent(new Event('afterprint')); }")
    seen.wait(FOLDED.replace(".map(one => one.id)", ".length > 0"), True)
    assert seen.page.evaluate(places) == before


def brightness(colour: str) -> float:
    return float(np.mean([int(part) for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]))
