"""Build HTML and SVG as a tree, so that nothing can be forgotten to be escaped.

Text goes in as text and is escaped on the way out, unseen characters too (`core.visible`). Text that comes
from outside never becomes an attribute.
"""

from collections.abc import Iterable
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from burnish.core.visible import visible

Child = Element | str


def node(tag: str, *children: Child, **attributes: str | float) -> Element:
    """Make an element; `class_` becomes `class`, `stroke_width` becomes `stroke-width`."""
    element = Element(tag, {_attribute_name(name): _attribute(value) for name, value in attributes.items()})
    return extend(element, children)


def extend(element: Element, children: Iterable[Child]) -> Element:
    """Append children, text or elements, and return the element."""
    for child in children:
        if isinstance(child, Element):
            element.append(child)
        elif len(element):
            element[-1].tail = (element[-1].tail or "") + visible(child)
        else:
            element.text = (element.text or "") + visible(child)
    return element


def to_html(element: Element) -> str:
    """The text of an HTML element (SVG within included)."""
    return ElementTree.tostring(element, encoding="unicode", method="html")


def to_xml(element: Element) -> str:
    """The text of an element as XML, for SVG files."""
    return ElementTree.tostring(element, encoding="unicode", method="xml")


def _attribute_name(name: str) -> str:
    return name.rstrip("_").replace("_", "-")


def _attribute(value: str | float) -> str:
    return value if isinstance(value, str) else f"{round(value, 2):g}"
