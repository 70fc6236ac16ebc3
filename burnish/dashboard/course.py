"""The course of a stage as a report shows it: who trained when and by which share, what gates decided, what was
corrected and what became of it.
"""

from xml.etree.ElementTree import Element

from burnish.dashboard import words
from burnish.dashboard.course_data import CourseView
from burnish.dashboard.node import Child, node
from burnish.dashboard.tables import table


def course_tables(course: CourseView) -> list[Element]:
    """The tables of one stage, those without rows left out."""
    found = [_domains(course)]
    if course.gates:
        found.append(_gates(course))
    if course.corrections:
        found.append(_corrections(course))
    changes = [[_number(str(step)), node("td", why)] for step, why in course.changes]
    folded = table("Each change of shares, and why.", [_head("before step"), "why"], changes)
    return [*found, node("details", node("summary", "Changes of shares"), folded)]


def _domains(course: CourseView) -> Element:
    heads: list[Child] = [
        "domain",
        "phase",
        *map(_head, ["groups", "last rewards", "share at first", "share at last", "by gates"]),
    ]
    rows = [
        [
            node("th", one.name, scope="row"),
            node("td", one.phase),
            _number(words.count(one.num_groups)),
            _number("–" if one.reward is None else words.score(one.reward)),
            _number(words.share(one.first_share, 1.0)),
            _number(words.share(one.last_share, 1.0)),
            _number("–" if one.factor == 1 else f"times {one.factor:.2g}"),
        ]
        for one in course.domains
    ]
    return table(f"Stage {course.stage}: how each domain ended, and its share of the training.", heads, rows)


def _gates(course: CourseView) -> Element:
    rows = [
        [
            _number(str(gate.step)),
            node("td", gate.kind.replace("_", " ")),
            node("td", *[node("div", f"{suite}: {sentence}") for suite, sentence in gate.sentences]),
            node("td", *[node("div", why) for why in gate.why]),
        ]
        for gate in course.gates
    ]
    return table(
        "Gates: what each decided, and from what.", [_head("after step"), "decision", "suites", "shares"], rows
    )


def _corrections(course: CourseView) -> Element:
    heads: list[Child] = [
        _head("from step"),
        "domain",
        "tasks",
        "part that failed",
        *map(_head, ["drawn", "rate before", "after"]),
    ]
    rows = [
        [
            _number(str(one.step)),
            node("th", one.domain, scope="row"),
            node("td", one.place),
            node("td", one.part),
            _number(f"times {one.weight:.2f}"),
            _number(f"{words.score(one.rate)} of {one.num_replies}"),
            _number("–" if one.rate_after is None else f"{words.score(one.rate_after)} of {one.num_replies_after}"),
        ]
        for one in course.corrections
    ]
    return table("Corrections: tasks that failed alike were drawn more often; rates of failing replies.", heads, rows)


def _head(title: str) -> Element:
    return node("th", title, class_="number", scope="col")


def _number(text: str) -> Element:
    return node("td", text, class_="number")
