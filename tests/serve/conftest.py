"""Fixtures: a server in its own process, and a browser."""

import os
import re
import shutil
import signal
import subprocess
import sys

import pytest

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


class Server:
    """`weakform serve`, started as a user would start it."""

    def __init__(self, *options):
        command = [sys.executable, "-m", "weakform", "serve", "--no-browser", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            self.address = self.process.stdout.readline().strip()
            self.port = int(re.search(r":(\d+)/", self.address).group(1))
            self.token = self.address.split("token=")[1]
        except BaseException:
            self.kill()
            raise

    def end(self, how=signal.SIGINT):
        """End the server by a signal and wait for it; kill it if it does not end within a generous time."""
        if self.process.poll() is None:
            os.kill(self.process.pid, how)
        try:
            return self.process.communicate(timeout=300)
        finally:
            self.kill()

    def kill(self):
        """Kill the server if it still runs, and wait for it."""
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()


@pytest.fixture(scope="session")
def server():
    running = Server()
    yield running
    running.end()


@pytest.fixture(scope="session")
def browser():
    if BROWSER is None and not os.environ.get("CI"):
        pytest.skip("no Chromium here; CI installs one")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def visit(browser):
    """Open the page in a browser without stored data; errors in the page fail the test."""
    contexts, errors = [], []

    def open_page(address, width=1300, height=900, context=None, **settings):
        if context is None:
            context = browser.new_context(viewport={"width": width, "height": height}, **settings)
            context.set_default_timeout(300_000)  # ms; a busy machine may take long, and waiting costs nothing
            contexts.append(context)
        tab = context.new_page()
        tab.on("pageerror", lambda error: errors.append(str(error)))
        tab.on(
            "console",
            lambda m: errors.append(m.text) if m.type == "error" and "Failed to load" not in m.text else None,
        )
        tab.goto(address)
        tab.wait_for_selector("body[data-ready]")
        return tab

    yield open_page
    for context in contexts:
        context.close()
    assert errors == []
