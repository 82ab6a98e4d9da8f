"""The page of `nilo snapshot html` in a real browser: it draws, answers keys and clicks, loads nothing, and hostile names stay text.

Its figures are compared with the other answers in `crates/nilo-cli/tests/snapshot_html.rs`.
"""

import pickle

import pytest
from browser import Browser
from conftest import ROOT

SNAPSHOTS = ROOT / "crates/nilo-allocator/testdata"
RIGHT, ENTER, ESCAPE, DOWN = "\ue014", "\ue007", "\ue00c", "\ue015"

# How many different colours a canvas has: nothing but one is an empty one.
COLOURS = """
const canvas = document.getElementById(arguments[0]);
const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
return new Set(Array.from({length: pixels.length / 4}, (_, at) => pixels.slice(at * 4, at * 4 + 3).join())).size;
"""

# The highest levels of all columns of pixels that the curve is drawn in, at a width, between two parts of the whole.
COLUMNS = """
const [width, from, to] = arguments;
const [first, last] = timeline.whole;
const at = (part) => part === 1 ? last : first + (last - first) * part;
let most = 0, reserved = 0;
for (let column = 0; column < width; column += 1) {
  const part = (place) => place === width ? at(to) : at(from) + (at(to) - at(from)) * place / width;
  const values = timeline.values(part(column), part(column + 1));
  most = Math.max(most, values.most);
  reserved = Math.max(reserved, values.reserved);
}
return [most, reserved];
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("browser")) as browser:
        yield browser


@pytest.fixture
def open_page(nilo, browser):
    def opened(snapshot, *options):
        told = nilo("snapshot", "html", snapshot, "-o", "page.html", *options)
        assert told.returncode == 0, told.stderr
        browser.resize(1200, 900)
        browser.complaints()
        browser.open(nilo.folder / "page.html")
        assert browser.run("return document.documentElement.dataset.ready") == "yes", browser.complaints()
        # Canvases are drawn with the next frame.
        browser.run("return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        return browser

    return opened


def text(browser, selector):
    return browser.run("return document.querySelector(arguments[0]).textContent", selector)


def test_everything_is_drawn_without_asking_for_anything(open_page):
    browser = open_page(SNAPSHOTS / "full-varlen.pickle.gz")
    for canvas in ("timeline", "overview", "flame", "segments"):
        assert browser.run(COLOURS, canvas) > 2, canvas
    assert "2,612,486,656 bytes at event 15,434" in text(browser, "#peaks")
    assert "Shown: events 1 to 48,641" in text(browser, "#timeline-readout")
    assert browser.run("return performance.getEntriesByType('resource').length") == 0
    assert browser.complaints() == []


def test_a_level_that_held_when_the_range_began_is_marked_there(open_page):
    browser = open_page(SNAPSHOTS / "full-varlen.pickle.gz", "--from", "48641ev")
    assert "403,630,080 bytes when the range begins" in text(browser, "#peaks")
    assert "GPU 0: 1 event." in text(browser, "#facts")
    browser.run("timeline.setAxis('event')")
    assert browser.run("return timeline.placeOf(timeline.marks[0].moment)") == 48_640
    assert browser.complaints() == []


def test_segments_that_several_stacks_keep_are_said_to_count_for_each(open_page):
    browser = open_page(SNAPSHOTS / "full-fragmentation-oom.pickle.gz")
    assert "add up to more than the 2.28 GiB stranded" in text(browser, "#ooms")
    assert browser.complaints() == []


def test_peaks_are_in_some_column_however_few_there_are(open_page):
    browser = open_page(SNAPSHOTS / "full-varlen.pickle.gz")
    for axis in ("time", "event"):
        browser.run("timeline.setAxis(arguments[0])", axis)
        for width in (1, 7, 320, 1111):
            assert browser.run(COLUMNS, width, 0, 1) == [2_612_486_656, 5_007_998_976], (axis, width)
    # The last event alone: nothing is cut off at the end.
    at_end = browser.run("return timeline.levels[0].most[timeline.count - 1]")
    assert browser.run(COLUMNS, 3, 1 - 1e-9, 1)[0] >= at_end


def test_keys_and_clicks_zoom(open_page):
    browser = open_page(SNAPSHOTS / "full-varlen.pickle.gz")
    length = "return timeline.view[1] - timeline.view[0]"
    whole = browser.run(length)
    browser.type("#timeline", "++")
    assert browser.run(length) == pytest.approx(whole / 4)
    browser.type("#timeline", "p")
    peak = browser.run("const at = timeline.placeOf(timeline.marks[0].moment); return at >= timeline.view[0] && at <= timeline.view[1]")
    assert peak
    browser.click("#timeline-all")
    assert browser.run(length) == pytest.approx(whole)

    rows = browser.run("return document.getElementById('flame').clientHeight / 19")
    # The second row is the outermost call.
    browser.click("#flame", 0, -19 * rows / 2 + 28)
    assert browser.run("return flame.root.depth") == 1
    assert "train.py" in text(browser, "#flame-readout")
    browser.type("#flame", DOWN + ENTER)
    assert browser.run("return flame.root.depth") == 2
    browser.type("#flame", ESCAPE)
    assert browser.run("return flame.root.depth") == 0
    browser.type("#flame-search", "cross_entropy")
    assert "246.09 MiB" in text(browser, "#flame-found")

    browser.type("#segments", RIGHT + DOWN)
    assert text(browser, "#segments-readout").startswith("segment of ")
    assert browser.complaints() == []


def test_a_failed_allocation_is_explained(open_page):
    browser = open_page(SNAPSHOTS / "full-fragmentation-oom.pickle.gz")
    told = text(browser, "#ooms")
    assert "1.86 GiB requested by train.py:43 one" in told
    assert "Cause: fragmentation: 2.28 GiB of the reserved memory was free, but in pieces of at most 15.00 MiB" in told
    assert browser.run("return document.querySelector('#moment').textContent.includes('a failed allocation')")


def test_the_page_fits_narrow_screens_and_follows_the_colour_scheme(open_page):
    browser = open_page(SNAPSHOTS / "window-retain-graph.pickle.gz")
    background = "return getComputedStyle(document.body).backgroundColor"
    browser.prefer("light")
    assert browser.run(background) == "rgb(255, 255, 255)"
    browser.prefer("dark")
    assert browser.run(background) == "rgb(13, 17, 23)"
    browser.prefer("light")
    browser.resize(400, 800)
    width, room = browser.run("return [document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert room > 350 and width <= room


def test_one_of_several_gpus_is_chosen(open_page, nilo):
    def trace(megabytes):
        return [{"action": action, "addr": 1 << 30, "size": megabytes << 20, "stream": 0, "time_us": 5, "frames": []} for action in ("segment_alloc", "alloc")]

    file = nilo.folder / "two.pickle"
    file.write_bytes(pickle.dumps({"segments": [], "device_traces": [trace(20), trace(40)]}, protocol=4))
    browser = open_page(file)
    assert text(browser, "#facts").startswith("GPU 1: 2 events")
    assert "40.00 MiB" in text(browser, "#peaks")
    browser.type("#device", "0")
    assert text(browser, "#facts").startswith("GPU 0: 2 events")
    assert "20.00 MiB" in text(browser, "#peaks")
    # Neither times nor call stacks were recorded.
    assert browser.run("return ['axis-choice', 'flame-body'].map((id) => document.getElementById(id).offsetParent === null)") == [True, True]
    assert browser.complaints() == []


def test_hostile_names_stay_text(open_page, nilo):
    name = "</script><img src=x onerror='window.owned=1'><script>window.owned=1</script>\u202e"
    frame = {"filename": f"{name}.py", "line": 1, "name": name}

    def event(action):
        return {"action": action, "addr": 1 << 21, "size": 1 << 21, "stream": 0, "time_us": 5, "frames": [dict(frame)], "user_metadata": name}

    stage = {"stage": "START", "name": name, "device": 0, "time_us": 1}
    trace = [event("segment_alloc"), event("alloc"), event("oom")]
    settings = {"PYTORCH_CUDA_ALLOC_CONF": name}
    snapshot = {"segments": [], "device_traces": [trace], "external_annotations": [stage], "allocator_settings": settings}
    file = nilo.folder / "<img src=x onerror=owned=1>.pickle"
    file.write_bytes(pickle.dumps(snapshot, protocol=4))
    browser = open_page(file)
    browser.click("#flame", 0, 10)
    assert browser.run("return [window.owned === undefined, document.images.length, document.scripts.length]") == [True, 0, 2]
    assert "<img src=x" in text(browser, "#stacks")
    assert browser.complaints() == []
    # What was smuggled in all the same would not run.
    browser.run("const script = document.createElement('script'); script.textContent = 'window.owned = 1'; document.body.append(script)")
    assert browser.run("return window.owned === undefined")
