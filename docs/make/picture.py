"""The first picture of README and site, a screenshot of a report: `python docs/make/picture.py` takes it again.

It also takes docs/timeline.png, the same with the numbers of its parts for docs/timeline.md.

It shows the page that `acl-py report upload.acl --what-if pinned --html upload.html` writes for the program of
docs/howto/report.md, with its first finding open. The browser is Chromium, driven by Playwright: `apt-get install
chromium; pip install -e '.[browser]'`. The file holds the same in words, for the test that compares it with what
happens now.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

DOCS = Path(__file__).parent.parent
PICTURE = DOCS / "page.png"
NUMBERED = DOCS / "timeline.png"
SIZE = {"width": 1280, "height": 720}
SCALE = 1.5  # pixels for one of the page: lines of text stay sharp on good screens
PAGE = "upload.html"
REPORT = "-m", "acl_py", "report", "upload.acl", "--what-if", "pinned", "--html", PAGE

# The places of the numbers, in pixels of the page: the parts of the chart are drawn, and are no elements.
PLACES = [(250, 75), (205, 102), (215, 134), (104, 163), (104, 187), (104, 233), (300, 351), (215, 428), (370, 703),
          (1105, 80), (1055, 193), (1065, 536), (600, 29), (915, 29)]  # fmt: skip
STYLE = """position:fixed; z-index:99; width:22px; height:22px; border-radius:50%; background:#c6401a; color:white;
font:bold 13px/22px sans-serif; text-align:center; transform:translate(-50%,-50%); box-shadow:0 0 0 2px white"""
NUMBER = """([places, style]) => places.forEach(([x, y], index) => {
    const mark = document.body.appendChild(document.createElement("div"));
    mark.textContent = index + 1;
    mark.style.cssText = `${style}; left:${x}px; top:${y}px`;
})"""


def report(folder: Path) -> str:
    """Write the page to *folder*; return the times of its runs and the findings, as the command line says them."""
    guide = (DOCS / "howto" / "report.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"^```python\n# upload\.py\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)
    (folder / "upload.py").write_text(f"# upload.py\n{program}", encoding="utf-8")
    subprocess.run([sys.executable, "upload.py"], cwd=folder, check=True)
    done = subprocess.run([sys.executable, *REPORT], cwd=folder, check=True, stdout=subprocess.PIPE, text=True)
    said = re.findall(r"^(?:critical path|  upload\.py:\d+: a copy|pinned: ).*", done.stdout, re.MULTILINE)
    return "\n".join(line.strip() for line in said)


def photograph(page: Path, target: Path, numbered: Path) -> None:
    """Open *page*, click its first finding, and write what is shown to *target*, and with numbers to *numbered*."""
    from playwright.sync_api import sync_playwright

    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        shown = started.new_page(viewport=SIZE, device_scale_factor=SCALE, color_scheme="light")
        shown.goto(page.as_uri())
        shown.click("#findings li button >> nth=0")
        shown.wait_for_timeout(1000)  # the chart moves to its place
        shown.screenshot(path=target)
        shown.evaluate(NUMBER, [PLACES, STYLE])
        shown.screenshot(path=numbered)
        started.close()


def main() -> None:
    """Take the pictures."""
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    with TemporaryDirectory() as name:
        folder, about = Path(name), PngInfo()
        about.add_text("Description", report(folder))
        photograph(folder / PAGE, folder / PICTURE.name, folder / NUMBERED.name)
        for picture in (PICTURE, NUMBERED):
            with Image.open(folder / picture.name) as image:
                image.convert("RGB").save(picture, optimize=True, pnginfo=about)


if __name__ == "__main__":
    main()
