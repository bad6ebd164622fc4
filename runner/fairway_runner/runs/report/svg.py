"""SVG as text, with everything escaped that is not SVG itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup, escape

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def tag(name: str, *children: str, **attributes: str | float) -> Markup:
    """One element; `class_` is the attribute class, and `_` in a name is `-`.

    >>> tag("text", "a < b", x=1.25, text_anchor="end")
    Markup('<text x="1.2" text-anchor="end">a &lt; b</text>')
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_shown(value))}"'
        for key, value in attributes.items()
    )
    inside = "".join(escape(child) for child in children)
    return Markup(f"<{name}{written}>{inside}</{name}>")  # noqa: S704 - all parts are escaped


def _shown(value: str | float) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)


def group(children: Iterable[str], **attributes: str | float) -> Markup:
    """A <g> of these."""
    return tag("g", *children, **attributes)


def chart(
    id_: str, title: str, description: str, size: tuple[float, float], children: Iterable[str]
) -> Markup:
    """A whole image with its title and description, which screen readers read instead."""
    width, height = size
    return tag(
        "svg",
        tag("title", title, id=f"{id_}-title"),
        tag("desc", description, id=f"{id_}-desc"),
        *children,
        viewBox=f"0 0 {width:g} {height:g}",
        role="img",
        aria_labelledby=f"{id_}-title {id_}-desc",
        class_="chart",
    )


def polyline(points: Sequence[tuple[float, float]], hint: str, **attributes: str | float) -> Markup:
    """A line through points in pixels, with a hint for who points at it; one point is a dot."""
    if len(points) == 1:
        (x, y), *_ = points
        return tag("circle", tag("title", hint), cx=x, cy=y, r=3, **attributes)
    path = "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return tag("path", tag("title", hint), d=path, fill="none", **attributes)


def text(x: float, y: float, content: str, anchor: str = "start", class_: str = "") -> Markup:
    """A label; `anchor` is start, middle or end."""
    return tag("text", content, x=x, y=y, text_anchor=anchor, class_=class_)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    """A straight line."""
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)
