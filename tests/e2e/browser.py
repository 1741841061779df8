"""Chromium without a window, by its DevTools over a pipe: what a page shows, asks for and complains of."""
import base64
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser")

# All text, with the colour that it has and the opaque colours behind it: the worst ratio of WCAG 2.1, and where.
CONTRAST = """(() => {
  const parse = c => { const n = c.match(/[\\d.]+/g).map(Number); return n.length < 4 ? [...n, 1] : n; };
  const light = c => c.slice(0, 3).map(v => v / 255).map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const behind = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor);
    if (c[3] > 0) return c; } return [255, 255, 255, 1]; };
  let worst = [99, ""];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walk.nextNode());) {
    const e = node.parentElement, style = getComputedStyle(e);
    if (!node.data.trim() || ["SCRIPT", "STYLE", "title", "desc"].includes(e.tagName) || !e.getClientRects().length) continue;
    const a = light(parse(e instanceof SVGElement ? style.fill : style.color)), b = light(behind(e));
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < worst[0]) worst = [ratio, node.data.trim()];
  }
  return worst;
})()"""


class Browser(contextlib.AbstractContextManager):
    def __init__(self):
        self.home = tempfile.mkdtemp(prefix="dl-browser-")
        reads, self.to = os.pipe()
        self.back, writes = os.pipe()

        def hand_over():  # it reads 3 and writes 4
            pair = os.dup(reads), os.dup(writes)
            os.dup2(pair[0], 3)
            os.dup2(pair[1], 4)

        self.process = subprocess.Popen(
            [PROGRAM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe", f"--user-data-dir={self.home}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False, preexec_fn=hand_over, env=dict(os.environ, HOME=self.home))
        os.close(reads)
        os.close(writes)
        self.number = 0
        self.buffer = b""
        self.session = None
        self.complaints, self.asked = [], []
        page = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __exit__(self, *error):
        self.process.kill()
        self.process.wait()
        os.close(self.to)
        os.close(self.back)
        shutil.rmtree(self.home, ignore_errors=True)

    def read(self):
        while b"\0" not in self.buffer:
            data = os.read(self.back, 1 << 20)
            if not data:
                raise AssertionError(f"the browser ended with {self.process.wait()}")
            self.buffer += data
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)

    def note(self, event):
        method, params = event.get("method"), event.get("params", {})
        if method == "Network.requestWillBeSent":
            self.asked.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown" or (method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert")):
            self.complaints.append(params)
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(params["entry"])

    def call(self, method, **params):
        self.number += 1
        request = {"id": self.number, "method": method, "params": params}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.to, json.dumps(request).encode() + b"\0")
        while True:
            message = self.read()
            if message.get("id") == self.number:
                if "error" in message:
                    raise AssertionError(f"{method}: {message['error']}")
                return message["result"]
            self.note(message)

    def value(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise AssertionError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def look(self, width, scheme):
        """How wide the window is, and whether the reader wants light or dark."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, url):
        self.complaints, self.asked = [], []
        self.call("Page.navigate", url=url)
        end = time.monotonic() + 120
        while self.value("document.readyState + location.href") != "complete" + url:
            if time.monotonic() > end:
                raise AssertionError(f"{url} has not come within 120 s")
            time.sleep(0.05)

    def picture(self, path, first="body", last="body"):
        """Of the page from the top of one element to the bottom of another, as wide as the first."""
        box = self.value(f"""(() => {{
          const a = document.querySelector({first!r}).getBoundingClientRect(), b = document.querySelector({last!r}).getBoundingClientRect();
          return {{x: a.x + scrollX, y: a.y + scrollY, width: a.width, height: Math.min(b.bottom - a.y, 16000), scale: 1}};
        }})()""")
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=box)
        path.write_bytes(base64.b64decode(shot["data"]))
