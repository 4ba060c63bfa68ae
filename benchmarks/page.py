"""How soon a report opens in a browser: its words, its first figure, all figures that are not folded.

The page is opened in Chromium as a person would open it, in a browser that runs already. No debugger listens in, as it
does in the tests, because plotly starts more slowly then. So a copy of the page takes the times itself, and tells them
by going to another address at the end. They are seconds from the request to the frame that shows what is named.
"""

from __future__ import annotations

import json
import subprocess
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from tempfile import TemporaryDirectory
from threading import Event, Thread
from urllib.parse import unquote

import numpy as np
from scripts.chromium import FLAGS, find_chromium

from sodalite import GreedyGPRegressor
from sodalite.report import make_report, to_html

from .common import smooth_problem

# The page is of another site than the one before it, so that it gets a process of its own.
WARM = "<script>setTimeout(() => {{ location = 'http://localhost:{port}/page'; }}, 1500);</script>"
TIMES = """<script>
{
  const times = {};
  const painted = (then) => requestAnimationFrame(() => setTimeout(then));
  const watch = new MutationObserver(() => {
    if (!("first" in times) && document.querySelector(".plot .main-svg")) {
      times.first = null;
      painted(() => { times.first = performance.now(); });
    }
    if (document.documentElement.dataset.ready !== "true") return;
    watch.disconnect();
    painted(() => {
      times.all = performance.now();
      times.text = performance.getEntriesByName("first-contentful-paint")[0].startTime;
      location = "/times?" + JSON.stringify(times);
    });
  });
  watch.observe(document, { subtree: true, childList: true, attributes: true });
}
</script>"""


def opened(chromium: str, html: str) -> dict[str, float]:
    """Seconds until there is text, a first figure, and all of them, in a browser that is ended then."""
    page = html.replace("<head>", f"<head>{TIMES}", 1)
    found: dict[str, float] = {}
    done = Event()

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            if path == "/times":
                found.update(json.loads(unquote(query)))
                done.set()
            answers = {"/": WARM.format(port=server.server_port), "/page": page}
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(answers.get(path, "").encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("localhost", 0), Answers)
    with server, TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        Thread(target=server.serve_forever, daemon=True).start()
        command = [
            chromium,
            *FLAGS,
            "--window-size=1200,900",
            f"--user-data-dir={profile}",
            f"http://127.0.0.1:{server.server_port}/",
        ]
        browser = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            if not done.wait(120):
                raise TimeoutError(f"{chromium} did not open the report to its end in two minutes.")
        finally:
            browser.terminate()
            browser.wait()
            server.shutdown()
    return {name: value / 1000 for name, value in found.items()}


def main(n: int = 3000, d: int = 10, m: int = 100, repeats: int = 5) -> None:
    chromium = find_chromium()
    if chromium is None:
        print("There is no Chromium to open a report in: install it (make browser).")
        return
    X, y, kernel = smooth_problem(n, 0.05, d)
    model = GreedyGPRegressor(kernel, n_active=m, hyperparameters="fixed", random_state=0).fit(X, y)
    html = to_html(make_report(model))
    runs = [opened(chromium, html) for _ in range(repeats)]
    print(f"a report of {len(html) / 1e6:.1f} MB, {html.count('<figure')} figures, the median of {repeats} (and all):")
    for name, words in (("text", "text"), ("first", "the first figure"), ("all", "all but folded")):
        values = [run[name] for run in runs]
        print(f"  {words:17}{np.median(values):5.2f} s  ({', '.join(f'{value:.2f}' for value in sorted(values))})")
