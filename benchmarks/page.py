"""The picture of an experiment's page: four checkout pages on simulated visitors.

    python -m benchmarks.page --picture docs/page.png [--dark] [--width 1280] [--height 1180]

It needs Chromium (Debian's package chromium or chromium-headless-shell). Beside the picture it
writes a stamp: digests of the picture and of what the page is made of. A test fails where one of
them is not today's.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import shutil
import tempfile
import time
from pathlib import Path
from threading import Thread

import numpy as np
import uvicorn
from playwright.sync_api import sync_playwright

from bestarm import Experiment
from bestarm.server.serving import listen, uvicorn_config

RATES = {"one page": 0.110, "two steps": 0.117, "express": 0.130, "guest": 0.105}
SERVER = Path(__file__).parents[1] / "src" / "bestarm" / "server"
_TEMPLATES = ("base", "experiment", "sections", "panels")
MADE_OF = (
    *(SERVER / "templates" / f"{name}.html" for name in _TEMPLATES),
    *(SERVER / "static" / name for name in ("style.css", "charts.js", "experiment.js", "theme.js")),
    *(SERVER / "pages" / name for name in ("charts.py", "panels.py")),
    Path(__file__),
)
DAYS, PER_HOUR, DAY = 14, 200, 86_400.0
SEED = 4


def stamp_of(picture: Path) -> str:
    """The command of a picture, and digests of it and of what the page is made of."""
    parts = {"picture": [picture], "page": MADE_OF}
    digests = {
        name: hashlib.sha256(b"".join(each.read_bytes() for each in files)).hexdigest()[:16]
        for name, files in parts.items()
    }
    lines = [f"{name} {digest}" for name, digest in digests.items()]
    return "\n".join((f"python -m benchmarks.page --picture docs/{picture.name}", *lines, ""))


def run_experiment(url: str) -> None:
    """Fill a database: more people buy by day than by night, whatever the page."""
    moment = time.time() - DAYS * DAY
    rng = np.random.default_rng(SEED)
    with Experiment.create(
        url,
        "checkout",
        list(RATES),
        bounds=(0, 1),
        control="one page",
        policy_options={"floors": {"one page": 0.2}},
        seed=SEED,
        description="Which checkout page converts best?",
        clock=lambda: moment,
    ) as experiment:
        for hour in range(24 * DAYS):
            moment += 3600
            level = 0.05 * math.sin(2 * math.pi * hour / 24)
            batch = experiment.ask(PER_HOUR)
            if batch.finished:
                break
            experiment.tell_many(
                {each.id: rng.random() < RATES[each.label] + level for each in batch}
            )
        print(experiment.recommendation())


def take_picture(address: str, path: Path, *, width: int, height: int, dark: bool) -> None:
    """Open the page and wait until its charts are drawn."""
    found = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        page = browser.new_page(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
        )
        page.goto(address)
        page.wait_for_selector(".plot .uplot", state="attached")
        page.screenshot(path=path)
        browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--picture", type=Path, required=True)
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--height", type=int, default=1180)
    parser.add_argument("--dark", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, listen("127.0.0.1", 0) as listener:
        url = f"sqlite:///{folder}/experiments.db"
        run_experiment(url)
        server = uvicorn.Server(uvicorn_config(url))
        thread = Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            address = f"http://127.0.0.1:{listener.getsockname()[1]}/experiments/checkout"
            take_picture(
                address,
                options.picture,
                width=options.width,
                height=options.height,
                dark=options.dark,
            )
        finally:
            server.should_exit = True
            thread.join()
    if not options.dark:
        stamp = options.picture.with_name(f"{options.picture.name}.stamp")
        stamp.write_text(stamp_of(options.picture), encoding="utf-8")


if __name__ == "__main__":
    main()
