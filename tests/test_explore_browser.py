"""The explorer in a real browser: the Chromium of the system, driven by Playwright."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from explore_samples import ARABIC, CHROMIUM, DIM, HOSTILE, embed, exploring, fill, in_browser

from pam_retriever import PredictiveAssociativeIndex

sync_api = pytest.importorskip("playwright.sync_api")
pytestmark = [pytest.mark.slow, in_browser]
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
AXE = Path(__file__).parent / "data" / "axe" / "axe.min.js"
QUESTION = "Who mended the kitchen tap?"
SINK = "2026-03-05/0"
VIEWS = {
    "ask": f"ask?q={quote(QUESTION)}",
    "ask by id": f"ask?id={SINK}",
    "plane": "map",
    "graph": f"map?id={SINK}&hops=2",
    "memory": f"memory?id={SINK}",
    "sessions": "sessions",
    "session": "sessions?id=2026-03-05&at=2",
    "long texts": f"sessions?id={quote(HOSTILE, safe='')}&at=1",
    "health": "health",
}
DRAWN = {
    "ask": "#answer[data-drawn] .hit",
    "ask by id": "#answer[data-drawn] .hit",
    "plane": "canvas[data-drawn]",
    "graph": "svg .node",
    "memory": "main .card",
    "sessions": "main .list li",
    "session": ".step[aria-current]",
    "long texts": ".step[aria-current]",
    "health": ".facts",
}


@pytest.fixture(scope="module")
def dialogue():
    """Shared: tests must not change it."""
    return fill(PredictiveAssociativeIndex(dim=DIM, embedder=embed))


@pytest.fixture(scope="module")
def address(dialogue):
    with exploring(dialogue) as explorer:
        yield explorer.address


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS), timeout=60_000)
        yield started
        started.close()


@pytest.fixture
def page(browser, address):
    yield from opened(browser, address)


def opened(browser, address, **options):
    """Opens a page. The test fails if the page has an error or sends a request to another machine."""
    context = browser.new_context(**{"viewport": {"width": 1440, "height": 900}, **options})
    one = context.new_page()
    one.set_default_timeout(20_000)
    wrong: list[str] = []
    one.on("pageerror", lambda error: wrong.append(str(error)))
    one.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    one.on("request", lambda request: own(request, address, wrong))
    yield one
    context.close()
    assert wrong == []


def own(request, address: str, wrong: list[str]) -> None:
    base = address.partition("/?")[0]
    if not request.url.startswith((base, "data:", "blob:")):
        wrong.append(f"asked {request.url}")


def show(page, address: str, view: str) -> None:
    page.goto("about:blank")
    page.goto(f"{address}#{VIEWS[view]}")
    page.wait_for_selector(DRAWN[view])


def test_a_slow_view_does_not_draw_over_a_later_one(page, address):
    show(page, address, "health")
    held = []
    page.route("**/api/memory?*", lambda route: held.append(route))
    page.evaluate(f"location.hash = '#{VIEWS['memory']}'")
    page.wait_for_function("document.title.startsWith('Memory')")
    while not held:
        page.wait_for_timeout(10)
    page.evaluate("location.hash = '#toString'")  # no view has this name
    page.wait_for_selector("#question")
    with page.expect_response("**/api/memory?*"):
        held[0].continue_()
    page.wait_for_timeout(200)
    assert page.locator("#question").count() == 1
    assert page.locator("main h1.id").count() == 0


def hits(page, column: str) -> list[tuple[str, float]]:
    found = page.locator(f"section[aria-labelledby={column}] .hit").evaluate_all(
        "all => all.map(one => [one.dataset.id, Number(one.dataset.score)])"
    )
    return [(id, score) for id, score in found]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_every_view_is_whole_and_has_no_serious_fault(browser, address, width, scheme):
    for page in opened(browser, address, viewport={"width": width, "height": 800}, color_scheme=scheme):
        for view in VIEWS:
            show(page, address, view)
            wider = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert wider <= 0, f"{view} is wider than the window"
            page.evaluate(AXE.read_text("utf-8"))
            found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
            serious = [
                (one["id"], node["html"][:200], node["any"][:1])
                for one in found["violations"]
                if one["impact"] in ("serious", "critical")
                for node in one["nodes"]
            ]
            assert serious == [], view


def test_the_numbers_in_the_page_are_those_of_recall(page, address, dialogue):
    show(page, address, "ask")
    expected = dialogue.recall(text=QUESTION, explain=True)
    assert hits(page, "happened") == [(hit.id, hit.score) for hit in expected]
    assert hits(page, "looks") == [(hit.id, hit.score) for hit in dialogue.search(text=QUESTION)]
    first = page.locator("section[aria-labelledby=happened] .hit").first
    assert first.locator(".score .number").inner_text() == f"{expected[0].score:.3f}"
    bars = first.locator(".brought").get_attribute("aria-label")
    assert bars == ", ".join(f"{name} {value:.3f}" for name, value in expected[0].sources.items())


def test_a_switch_changes_the_answer_and_the_link_keeps_it(page, address, dialogue):
    show(page, address, "ask")
    with page.expect_response("**/api/ask"):
        page.click(".sources button[data-source=words]")
    page.wait_for_selector(".sources button[data-source=words][aria-pressed=false]")
    expected = dialogue.recall(text=QUESTION, without=["words"])
    page.wait_for_function(
        "id => document.querySelector('[aria-labelledby=happened] .hit')?.dataset.id === id", arg=expected[0].id
    )
    assert hits(page, "happened") == [(hit.id, hit.score) for hit in expected]
    link = page.url
    page.goto("about:blank")
    page.goto(link)
    page.wait_for_selector(".sources button[data-source=words][aria-pressed=false]")
    assert page.input_value("#question") == QUESTION
    assert hits(page, "happened") == [(hit.id, hit.score) for hit in expected]


def test_a_filter_and_k_follow_at_once(page, address, dialogue):
    show(page, address, "ask")
    page.click("summary")
    page.fill("label.where input", '{"speaker": "Ben"}')
    page.fill("label.k input", "3")
    page.press("label.k input", "Enter")
    expected = dialogue.recall(text=QUESTION, k=3, where={"speaker": "Ben"})
    page.wait_for_function("() => document.querySelectorAll('[aria-labelledby=happened] .hit').length === 3")
    assert hits(page, "happened") == [(hit.id, hit.score) for hit in expected]
    page.fill("label.where input", "{broken")
    page.press("label.where input", "Enter")
    page.wait_for_selector("#answer .problem")
    assert "JSON" in page.inner_text("#answer .problem")


def test_why_shows_where_both_met_or_that_they_never_did(page, address):
    """ "Why" shows the session with the cue and the hit, or says that they were never experienced together."""
    show(page, address, "ask by id")
    met = page.locator(".hit[data-id='2026-03-05/1']").last
    met.get_by_role("button", name="Why").click()
    met.locator(".around .marked").first.wait_for()
    assert met.locator(".around .marked").all_inner_texts() == [
        "cue\nAnn: Mr. Okafor came by. It took him ten minutes.",
        "hit\nBen: What was it in the end?",
    ]
    assert met.locator(".track .cue").count() == met.locator(".track .hit-mark").count() == 1
    never = page.locator(".hit", has_text="predicted").last
    never.get_by_role("button", name="Why").click()
    never.get_by_text("never experienced").wait_for()


def test_scripts_in_text_id_and_metadata_do_not_run(page, address):
    for fragment in (
        f"ask?id={quote(HOSTILE, safe='')}",
        f"ask?q={quote(HOSTILE, safe='')}",
        f"memory?id={quote(HOSTILE, safe='')}",
        f"map?id={quote(HOSTILE, safe='')}",
        f"map?by={quote(HOSTILE, safe='')}",
        f"sessions?id={quote(HOSTILE, safe='')}",
        f"sessions?q={quote(HOSTILE, safe='')}",
        "sessions",
    ):
        page.goto("about:blank")
        page.goto(f"{address}#{fragment}")
        page.wait_for_load_state("networkidle")
        for button in page.get_by_role("button", name="Why").all():
            button.click()
        page.wait_for_load_state("networkidle")
        assert page.title().endswith("Explorer")
        assert page.locator("main img, main script").count() == 0, fragment
    page.goto("about:blank")  # the previous view also has cards
    page.goto(f"{address}#memory?id={quote(HOSTILE, safe='')}")
    page.wait_for_function("() => document.querySelector('main .card')")
    assert page.inner_text("h1") == HOSTILE


def test_the_browser_would_refuse_html_from_a_text(browser, address):
    """The content security policy blocks HTML that a script makes from a text."""
    context = browser.new_context()
    page = context.new_page()
    show(page, address, "health")
    refused = page.evaluate(
        "(() => { try { document.body.innerHTML = '<b>x</b>'; return ''; } catch (e) { return e.name; } })()"
    )
    assert refused == "TypeError"
    context.close()


def test_long_and_right_to_left_texts(page, address):
    page.goto(f"{address}#ask?id={quote('عربي')}")
    page.wait_for_selector("#answer[data-drawn]")
    cue = page.locator("#answer > .card .text")
    assert cue.inner_text() == ARABIC
    assert page.evaluate("one => getComputedStyle(one).direction", cue.element_handle()) == "rtl"
    page.goto(f"{address}#memory?id={'w' * 300}")
    page.wait_for_function("() => document.querySelector('main h1')?.textContent.startsWith('www')")
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_by_keyboard_alone(page, address):
    """The keyboard alone reaches an answer, its reason, the steps of a session, the map and the health view."""
    page.goto(address)
    page.wait_for_function("() => document.activeElement?.id === 'question'")
    page.keyboard.type(QUESTION)
    page.keyboard.press("Enter")
    page.wait_for_selector("#answer[data-drawn] .hit")
    tab_to(page, "button[data-source]")
    page.keyboard.press("Space")
    page.wait_for_selector(".sources button[aria-pressed=false]")
    page.wait_for_function("() => document.activeElement?.dataset.source !== undefined")
    tab_to(page, "[aria-labelledby=happened] button[aria-expanded]")
    page.keyboard.press("Enter")
    page.wait_for_selector(".why h3")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "question"
    tab_to(page, "nav a[data-view=sessions]", back=True)
    page.keyboard.press("Enter")
    page.wait_for_selector("main .list li")
    tab_to(page, "main .list a")
    page.keyboard.press("Enter")
    page.wait_for_selector(".step[data-position='0'][aria-current]")
    tab_to(page, ".steps")
    page.keyboard.press("ArrowDown")
    page.wait_for_selector(".step[data-position='1'][aria-current]")
    tab_to(page, "nav a[data-view=map]", back=True)
    page.keyboard.press("Enter")
    page.wait_for_selector("canvas[data-drawn]")
    before = page.locator("canvas").get_attribute("data-frames")
    tab_to(page, "canvas")
    page.keyboard.press("+")
    page.wait_for_function("before => document.querySelector('canvas').dataset.frames !== before", arg=before)
    page.goto(f"{address}#{VIEWS['graph']}")
    page.wait_for_selector("svg .node")
    tab_to(page, "svg .node.h1")
    page.keyboard.press("Enter")
    page.wait_for_selector("#answer[data-drawn] .hit")
    tab_to(page, "nav a[data-view=health]", back=True)
    page.keyboard.press("Enter")
    page.wait_for_selector(".facts")


def tab_to(page, selector: str, back: bool = False) -> None:
    """Presses Tab until an element has the focus."""
    for _ in range(80):
        if page.evaluate("selector => document.activeElement?.matches(selector)", selector):
            return
        page.keyboard.press("Shift+Tab" if back else "Tab")
    raise AssertionError(f"Tab does not reach {selector}")


def test_a_point_of_the_map_leads_to_its_memory(page, address, dialogue):
    show(page, address, "plane")
    canvas = page.locator("canvas")
    x, y = canvas.evaluate(
        """one => { const data = one.getContext("2d").getImageData(0, 0, one.width, one.height).data;
        const at = data.findIndex((value, place) => place % 4 === 3 && value > 0) >> 2;
        const ratio = one.width / one.clientWidth;
        return [(at % one.width) / ratio + 1, Math.floor(at / one.width) / ratio + 2]; }"""
    )
    canvas.click(position={"x": x, "y": y})
    page.wait_for_selector("svg .node.h0")
    assert page.locator("svg .node.h0").get_attribute("data-id") in dialogue


@pytest.mark.parametrize("width", [390, 1440])
def test_names_of_a_neighbourhood_can_be_read(browser, address, width):
    """Every displayed name is complete, inside the picture and large enough to read, and overlaps no other name."""
    for page in opened(browser, address, viewport={"width": width, "height": 800}):
        page.goto(f"{address}#map?id={SINK}&hops=3")
        page.wait_for_selector("svg .node text[visibility=visible]")
        read = """() => { const picture = document.querySelector("svg.graph").getBoundingClientRect();
            return [[picture.left, picture.top, picture.right, picture.bottom],
            [...document.querySelectorAll("svg .node text")].filter(one => one.getAttribute("visibility") === "visible")
            .map(one => one.getBoundingClientRect()).map(one => [one.left, one.top, one.right, one.bottom])]; }"""
        picture, names = page.evaluate(read)
        assert len(names) >= 8
        for at, one in enumerate(names):
            assert one[3] - one[1] >= 11
            assert one[0] >= picture[0] - 1
            assert one[2] <= picture[2] + 1
            for other in names[:at]:
                beside = one[2] <= other[0] + 1 or other[2] <= one[0] + 1
                assert beside or one[3] <= other[1] + 4 or other[3] <= one[1] + 4, "names overlap"
        node = page.locator("svg .node:has(text[visibility=hidden])").first
        if node.count():  # a node without a visible name shows it on focus or hover
            node.focus()
            page.locator(".picture .label").wait_for()
            assert page.inner_text(".picture .label")[:20] == node.get_attribute("aria-description")[:20]


def test_a_stretch_of_time_is_dragged_and_kept_by_the_link(page, address, dialogue):
    show(page, address, "ask")
    line = page.locator(".when svg")
    line.wait_for()
    box = line.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 9)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 1, box["y"] + 9, steps=3)
    with page.expect_response("**/api/ask"):
        page.mouse.up()
    page.wait_for_function("() => location.hash.includes('during')")
    counted = dialogue.time_counts(60)
    middle = datetime.fromtimestamp(counted.start + (counted.end - counted.start) / 2, timezone.utc)
    expected = dialogue.recall(text=QUESTION, where={"$time": {"$gte": middle}})
    assert len(expected) > 0
    page.wait_for_function(
        "id => document.querySelector('[aria-labelledby=happened] .hit')?.dataset.id === id", arg=expected[0].id
    )
    assert hits(page, "happened") == [(hit.id, hit.score) for hit in expected]
    assert f"{sum(counted.counts[30:])} memories" in page.inner_text(".when")
    link = page.url
    page.goto("about:blank")
    page.goto(link)
    page.wait_for_selector(".when rect.out")
    page.wait_for_selector("#answer[data-drawn] .hit")
    assert hits(page, "happened") == [(hit.id, hit.score) for hit in expected]
    page.get_by_label("Not before").focus()  # with the keyboard alone
    with page.expect_response("**/api/ask"):
        page.keyboard.press("Home")
    page.wait_for_function("() => !location.hash.includes('during')")


def test_without_an_embedder_the_page_takes_ids(browser):
    index = PredictiveAssociativeIndex(dim=3)
    index.add(np.eye(3), ["a", "b", "c"])
    with exploring(index) as explorer:
        for page in opened(browser, explorer.address):
            page.goto(explorer.address)
            page.wait_for_function("() => document.activeElement?.id === 'question'")
            assert page.input_value("#kind") == "id"
            assert page.locator("#kind option[value=q]").is_disabled()
            page.keyboard.type("a")
            page.keyboard.press("Enter")
            page.wait_for_selector("#answer[data-drawn] .hit")
            assert [id for id, _ in hits(page, "looks")] == ["b", "c"]


def test_a_node_can_be_dragged(page, address):
    show(page, address, "graph")
    node = page.locator("svg .node.h0")
    before = node.get_attribute("transform")
    box = node.locator("circle").bounding_box()
    page.mouse.move(box["x"] + 8, box["y"] + 8)
    page.mouse.down()
    page.mouse.move(box["x"] + 90, box["y"] + 60, steps=4)
    page.mouse.up()
    assert node.get_attribute("transform") != before
    assert "map" in page.url  # a drag does not open the node as a click does


def test_a_click_on_this_helped_stores_feedback(browser):
    index = fill(PredictiveAssociativeIndex(dim=DIM, embedder=embed), fit=False)
    with exploring(index, write=True) as explorer:
        for page in opened(browser, explorer.address):
            show(page, explorer.address, "ask")
            first = page.locator("section[aria-labelledby=happened] .hit").first
            with page.expect_response("**/api/feedback"):
                first.get_by_role("button", name="This one helped").click()
            first.locator("button[aria-pressed=true]").wait_for()
            (stored,) = index.feedbacks()
            assert stored.used == {first.get_attribute("data-id"): 1.0}
            assert stored.text == QUESTION
            with page.expect_response("**/api/feedback"):
                first.get_by_role("button", name="This one did not").click()
            first.get_by_role("button", name="This one did not", pressed=True).wait_for()
            assert list(index.feedbacks()[0].used.values()) == [-1.0]


def test_without_write_there_is_no_such_button(page, address):
    show(page, address, "ask")
    assert page.get_by_role("button", name="helped").count() == 0


def test_a_wrong_token_shows_no_page(browser, address):
    context = browser.new_context()
    page = context.new_page()
    answer = page.goto(address.partition("token=")[0] + "token=wrong")
    assert answer.status == 403
    context.close()


def test_another_page_of_this_browser_cannot_ask(browser, address):
    """A page of another server on this machine can neither read from nor write to the explorer."""
    context = browser.new_context()
    page = context.new_page()
    page.route("http://localhost:9/**", lambda route: route.fulfill(body="<p>another page", content_type="text/html"))
    page.goto("http://localhost:9/")
    base, _, token = address.partition("/?token=")
    status = page.evaluate(
        """([base, token]) => fetch(`${base}/api/health`, {headers: {Authorization: `Bearer ${token}`}})
        .then(answer => answer.status, () => "refused")""",
        [base, token],
    )
    assert status == "refused"
    context.close()


def test_the_exported_file_opens_without_a_server(browser, page, address, tmp_path):
    show(page, address, "ask")
    with page.expect_download() as got:
        page.get_by_role("button", name="Save as a file").click()
    target = tmp_path / "recall.html"
    got.value.save_as(target)
    context = browser.new_context(offline=True)
    alone = context.new_page()
    wrong: list[str] = []
    alone.on("console", lambda message: wrong.append(message.text))
    alone.goto(target.as_uri())
    assert alone.inner_text("h1") == QUESTION
    assert alone.locator("svg.graph circle").count() > 3
    assert alone.evaluate("getComputedStyle(document.querySelector('main')).maxWidth") != "none"
    assert wrong == []
    context.close()


def test_a_slow_answer_does_not_overtake_a_later_one(page, address, dialogue):
    show(page, address, "ask")
    held = []
    page.route(
        "**/api/ask", lambda route: held.append(route) if "slow" in route.request.post_data else route.continue_()
    )
    for words in ("slow question", "lighthouse"):
        page.fill("#question", words)
        page.press("#question", "Enter")
    expected = dialogue.recall(text="lighthouse")
    page.wait_for_function(
        "id => document.querySelector('[aria-labelledby=happened] .hit')?.dataset.id === id", arg=expected[0].id
    )
    for route in held:
        route.fulfill(
            body=json.dumps({"looks": [], "happened": [], "sources": [], "seconds": {"search": 0, "recall": 0}})
        )
    page.wait_for_timeout(200)
    assert hits(page, "happened") == [(hit.id, hit.score) for hit in expected]
