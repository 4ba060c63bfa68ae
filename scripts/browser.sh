#!/bin/sh
# The browser in which tests/report/test_report_browser.py looks at reports: Debian's Chromium, if there is none yet and it can
# be installed without asking anybody. Otherwise those tests are skipped (but fail where CI=true).
for name in chromium chromium-browser google-chrome; do
    if command -v "$name" >/dev/null; then
        exit 0
    fi
done
as_root=""
if [ "$(id -u)" != 0 ]; then
    as_root="sudo -n"
fi
if command -v apt-get >/dev/null && $as_root true 2>/dev/null; then
    echo "Installing Chromium, for the tests that look at a report"
    $as_root apt-get update -qq &&
        $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null &&
        exit 0
fi
echo "There is no Chromium, and it cannot be installed here: the tests that need a browser will be skipped."
