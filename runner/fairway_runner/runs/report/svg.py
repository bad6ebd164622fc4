"""SVG as text, with all content escaped."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape


def tag(name: str, *children: str, **attributes: str | float) -> Markup:
    """Returns one element; `class_` is the attribute class, and `_` in a name is `-`.

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


def chart(
    id_: str, title: str, description: str, size: tuple[float, float], children: Iterable[str]
) -> Markup:
    """Returns an entire image with its title and description for screen readers."""
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
    """Returns a line through points in pixels, with a tooltip; one point becomes a dot."""
    if len(points) == 1:
        (x, y), *_ = points
        return tag("circle", tag("title", hint), cx=x, cy=y, r=3, **attributes)
    path = "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return tag("path", tag("title", hint), d=path, fill="none", **attributes)


def text(x: float, y: float, content: str, anchor: str = "start", class_: str = "") -> Markup:
    """Returns a label; `anchor` is start, middle or end."""
    return tag("text", content, x=x, y=y, text_anchor=anchor, class_=class_)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    """Returns a straight line."""
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def clamp(value: float) -> float:
    """Returns the value, or a near one that has a place on an axis: differences and quotients of
    those beyond it would overflow.

    >>> clamp(math.nan), clamp(-math.inf), clamp(1e-320), clamp(2)
    (0.0, -1e+300, 0.0, 2.0)
    """
    if not abs(value) >= 1e-300:  # true for NaN
        return 0.0
    return float(max(-1e300, min(value, 1e300)))


_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_FEW = 5  # labels that fit on an axis


@dataclass(frozen=True)
class Scale:
    """Maps values from `low` to `high` to pixels from `start` to `end`, logarithmically if `log`.
    `step` is the distance of two round values; 0 chooses a suitable one."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False
    step: float = 0.0

    def __call__(self, value: float) -> float:
        """Returns the pixel of a value; those beyond an end are drawn there."""
        low, high, at = self.low, self.high, max(self.low, min(value, self.high))
        if self.log:
            low, high, at = math.log(low), math.log(high), math.log(at)
        return self.start + (at - low) / (high - low) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Returns a few round values between low and high."""
        if self.log:
            powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            for within in ((1,), (1, 3), (1, 2, 5)):
                ticks = [factor * 10.0**power for power in powers for factor in within]
                ticks = [tick for tick in ticks if self.low <= tick <= self.high]
                if len(ticks) >= 3:
                    break
            every = math.ceil(len(ticks) / (2 * _FEW)) or 1
            return ticks[::every]
        step = self.step or _step(self.high - self.low)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [number * step + 0.0 for number in range(first, last + 1)]


def scale_of(
    values: Iterable[float], start: float, end: float, *, log: bool | None = None
) -> Scale:
    """Returns a scale that contains all values, with round ends. It is logarithmic if `log` says
    so, or by default if all values are positive and differ by more than a factor of a hundred."""
    found = list(map(clamp, values))
    low, high = min(found), max(found)
    log = low > 0 and (high / low > 100 if log is None else log)
    if math.isclose(low, high, rel_tol=1e-12):  # round ends could be one number
        margin = abs(low) * 0.05 or 0.5
        low, high = low - margin, high + margin
    if log:
        return Scale(low * 0.95, high * 1.05, start, end, log=True)
    step = _step(high - low)
    low, high = math.floor(low / step) * step, math.ceil(high / step) * step
    return Scale(low, high, start, end, step=step)


def _step(span: float) -> float:
    raw = span / _FEW
    power = 10.0 ** math.floor(math.log10(raw))
    return next(step * power for step in _STEPS if step * power >= raw * 0.999)


def label(value: float) -> str:
    """Formats a value on an axis, as short as possible.

    >>> label(0.30000000000000004), label(183211.0), label(1e-07), label(25000)
    ('0.3', '183k', '1e-7', '25k')
    """
    size = abs(value)
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if size >= limit and size < 1e12:
            return f"{value / (1e3 if unit == 'k' else limit):.3g}{unit}"
    shown = f"{value:.4g}"
    mantissa, e, exponent = shown.partition("e")
    return f"{mantissa}e{int(exponent)}" if e else shown
