"""Every page, as everybody who may open it: nothing wrong for axe-core in either theme, and no page slides sideways.

What a page may never do (an error in the console, a request that fails or leaves the host) is in `Visitor.complaints`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from tenants.api.reference.operations import groups, operations
from tenants.models import User
from tenants.roles import AUDITOR, BILLING, OPERATOR, OWNER, STAFF_ROLES, VIEWER
from tests.bench.pages.asking import BUDGETS, SCREEN
from tests.browser import visits
from tests.browser.conftest import Visitor, until
from tests.browser.world import traded_world
from tests.tenants.builders import make_member, make_tenant

pytestmark = pytest.mark.django_db(transaction=True)

Act = Callable[..., Any]
DOCS = "/api/v1/docs/"
WIDTHS = (320, 390, 820, 1440)
SETTLED = 60.0  # seconds, in which a chart has followed; each page that slides takes so long
# What reaches beyond the right edge, outermost first.
WIDE = """[...document.body.querySelectorAll("*")].filter((el) => el.getBoundingClientRect().right > innerWidth + 1)
    .slice(0, 4).map((el) => `${el.tagName}.${el.className.baseVal ?? el.className}#${el.id}`).join(" ")"""
# What reaches out of its own cell, over a neighbour, and what reaches out of its panel, over the panels that follow.
SPILT = """() => {
  const boxed = (el, panel) => {
    for (let each = el.parentElement; each && each !== panel; each = each.parentElement)
      if (getComputedStyle(each).overflowX !== "visible") return true;
    return false;
  };
  const seen = (el) => el.checkVisibility() && el.clientWidth && !el.closest(".visually-hidden, .ask, .menu, thead");
  const over = (el) => el.scrollWidth > el.clientWidth + 2 && getComputedStyle(el).overflowX === "visible";
  const cells = [...document.querySelectorAll("main :is(td, th, dd, dt)")].filter((el) => seen(el) && over(el));
  const out = [...document.querySelectorAll("main .panel")].flatMap((panel) => {
    const edge = panel.getBoundingClientRect();
    return [...panel.querySelectorAll("tr, dl, p, input, button")].filter((el) => {
      const box = el.getBoundingClientRect();
      return seen(el) && (box.right > edge.right + 1 || box.bottom > edge.bottom + 2) && !boxed(el, panel);
    });
  });
  const words = (el) => el.textContent.trim().slice(0, 40);
  return [...cells, ...out].slice(0, 4).map((el) => `${el.localName}.${el.className} "${words(el)}"`);
}"""
# The build of each part of the page (what stands around the contents, and each panel of them) without its words,
# numbers and addresses, and without the place in the navigation, equal neighbours (rows) told once: what axe-core and
# the eye judge is the same where the build is. Each part is marked, so that it can be named: [mark, build].
BUILDS = """() => {
  const kept = ["class", "role", "type", "hidden", "open", "disabled", "aria-invalid", "data-state", "scope"];
  const words = (el) => [...el.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  const build = (el) => `<${el.localName} ${el.getAttributeNames().filter((name) => name !== "aria-current").sort()
    .map((name) => kept.includes(name) ? `${name}=${el.getAttribute(name)}` : name)}${words(el) ? " words" : ""}>`
    + [...el.children].map(build).filter((each, place, all) => each !== all[place - 1]).join("") + "/";
  const holder = "main, .cols, main > section:not(.panel), main > div:not(.panel)";
  const panels = (el) => (el.matches(holder) && el.children.length ? [...el.children].flatMap(panels) : [el]);
  const around = "header.rail, nav.bottom-nav, #tape, footer, #toasts", main = document.querySelector("main");
  const parts = [...document.querySelectorAll(around), ...(main ? panels(main) : [])], builds = parts.map(build);
  const rest = document.body.cloneNode(true);
  for (const el of rest.querySelectorAll(`${around}, main`)) el.remove();
  parts.forEach((el, number) => el.setAttribute("data-part", number));
  return [...builds.map((each, number) => [`[data-part="${number}"]`, each]), ["body", build(rest)]];
}"""


def hour_before_midnight() -> str:
    """The zone in which it is between eleven and midnight: what comes names another day, which is the longest way to
    write a time. Zones of this family have their sign the other way round."""
    ahead = (23 - datetime.now(UTC).hour + 11) % 24 - 11
    return f"Etc/GMT{-ahead:+d}" if ahead else "Etc/GMT"


def slides(one: Visitor, width: int) -> list[str]:
    """Or lies over what is beside or below it. Charts follow a change of the width a moment later."""
    one.page.set_viewport_size({"width": width, "height": 900})
    try:
        until(lambda: one.sideways() <= 0, seconds=SETTLED)
    except AssertionError:
        return [f"slides sideways by {one.sideways()} at {width}: {one.page.evaluate(WIDE)}"]
    return [f"spills at {width}: {each}" for each in one.page.evaluate(SPILT)]


def wrong_with(one: Visitor, earlier_builds: set[str]) -> list[str]:
    """On the page that is open: widths that slide, and what axe-core says; of the dark theme only its colours.

    `earlier_builds`: builds that were judged. A page of nothing else is a repetition; in another one colours, which
    take axe-core the longest, are looked at where the build is new.
    """
    builds = one.page.evaluate(BUILDS)
    fresh = [part for part, build in builds if build not in earlier_builds]
    if not fresh:
        return []
    earlier_builds |= {build for _, build in builds}
    faults = [line for width in WIDTHS for line in slides(one, width)] + one.axe(colours_of=fresh)
    one.page.emulate_media(color_scheme="dark")
    faults += [f"dark: {line}" for line in one.axe("color-contrast", colours_of=fresh)]
    one.page.emulate_media(color_scheme="light")
    return faults


def looked_at(one: Visitor, path: str, earlier_builds: set[str]) -> list[str] | None:
    """What is wrong with the page, or None if this person may not open it."""
    complaints = len(one.complaints)
    status = one.open(path).status
    if status == 403:
        del one.complaints[complaints:]  # the browser calls a refusal an error
        return None
    one.page.wait_for_selector(".htmx-request", state="detached")  # what the page fetches is a part of it
    return [f"{path}: {line}" for line in wrong_with(one, earlier_builds)]


def owner_without_a_market() -> User:
    return make_member(make_tenant("lumen"), OWNER).user


@pytest.mark.wide
def test_pages_of_the_interface_are_four_screens_at_most(visit: Act, act: Act) -> None:
    """They grow with the interface and not with a market, so a test can tell, and needs no market for it."""
    one = visit(act(owner_without_a_market))
    paths = [DOCS, f"{DOCS}?method=GET", *(f"{DOCS}{group.tag}/" for group in groups())]
    heights = {}
    for path in paths + [f"{DOCS}{operation.tag}/{name}/" for name, operation in operations().items()]:
        one.open(path)
        heights[path] = one.page.evaluate("document.documentElement.scrollHeight") / SCREEN
    assert not {path: height for path, height in heights.items() if height > BUDGETS["screens"]}


@pytest.mark.wide
def test_an_address_of_before_arrives_at_the_operation(visit: Act, act: Act) -> None:
    one = visit(act(owner_without_a_market))
    for path in (f"{DOCS}#webhooks_read", f"{DOCS}webhooks/#webhooks_read"):
        one.open(path)
        place = one.page.locator(":target")
        assert place.get_by_role("link").get_attribute("href") == f"{DOCS}webhooks/webhooks_read/"
        assert 0 <= place.bounding_box()["y"] < SCREEN


@pytest.mark.wide
def test_every_page_is_for_everybody(visit: Act, act: Act) -> None:
    world = act(traded_world)
    earlier_builds: set[str] = set()
    wrong: list[str] = []
    for role in (OWNER, BILLING, VIEWER, AUDITOR, OPERATOR):
        one = visit(world.people[role], zone=hour_before_midnight())
        answers = {path: looked_at(one, path, earlier_builds) for path in visits.addresses(world.places, role)}
        wrong += [f"{role}: {line}" for lines in answers.values() for line in lines or []]
        refused = [path for path, lines in answers.items() if lines is None]
        wrong += [f"{role} may not open {path}" for path in refused if is_own(role, path)]
        one.page.close()
    assert not wrong, "\n".join(wrong)


@pytest.mark.wide
def test_every_page_is_for_everybody_at_200_per_cent(visit: Act, act: Act) -> None:
    """In a window of 1440 by 900 that is zoomed to twice the size. Those who see each page are enough."""
    world = act(traded_world)
    earlier_builds: set[str] = set()
    wrong: list[str] = []
    for role, paths in (
        (OWNER, visits.addresses(world.places, OWNER)),
        (OPERATOR, visits.addresses(world.places, OPERATOR)),
        ("nobody", visits.before_the_log_in(world.places)),
    ):
        one = visit(world.people.get(role), zoom=2)
        for path in paths:
            if role == OPERATOR and path.startswith("/t/"):
                continue  # the owner has been there
            one.open(path)
            one.page.wait_for_selector(".htmx-request", state="detached")
            wrong += [f"{role} {path}: {line}" for line in wrong_at_zoom(one, earlier_builds)]
        one.page.close()
    assert not wrong, "\n".join(wrong)


def wrong_at_zoom(one: Visitor, earlier_builds: set[str]) -> list[str]:
    """As `wrong_with`, in the one width that the window has."""
    builds = one.page.evaluate(BUILDS)
    fresh = [part for part, build in builds if build not in earlier_builds]
    if not fresh:
        return []
    earlier_builds |= {build for _, build in builds}
    slide = [f"slides sideways by {one.sideways()}: {one.page.evaluate(WIDE)}"] if one.sideways() > 0 else []
    faults = slide + one.axe(colours_of=fresh)
    one.page.emulate_media(color_scheme="dark")
    faults += [f"dark: {line}" for line in one.axe("color-contrast", colours_of=fresh)]
    one.page.emulate_media(color_scheme="light")
    return faults


def is_own(role: str, path: str) -> bool:
    """Whether this role must be let in: an owner in its own tenant, and staff over all tenants."""
    inside = path.startswith("/t/")
    return inside if role == OWNER else role in STAFF_ROLES and not inside


@pytest.mark.wide
def test_pages_before_the_log_in_are_for_everybody(visit: Act, act: Act) -> None:
    world = act(traded_world)
    one, earlier_builds = visit(None), set[str]()
    answers = [looked_at(one, path, earlier_builds) for path in visits.before_the_log_in(world.places)]
    assert None not in answers
    wrong = [line for lines in answers for line in lines or []]
    assert not wrong, "\n".join(wrong)
