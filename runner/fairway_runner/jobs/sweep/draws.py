"""Random values from distributions, the same for a seed on every machine.

All of them come from `random.Random(seed).random()`, the one method whose sequence Python
promises to keep, by textbook algorithms on exact arithmetic. Numbers are rounded to 12
significant digits.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from fairway_core.documents import FieldError
from fairway_runner.jobs.sweep.exact import exp, log

if TYPE_CHECKING:
    from fairway_runner.jobs.params import ParamValue
    from fairway_runner.jobs.sweep.distributions import Distribution

Uniform = Callable[[], float]
"""A source of numbers from 0 up to but not 1, each a multiple of 2^-53."""

_BITS = 2**53


def draws(distribution: Distribution, seed: int, name: str) -> Iterator[ParamValue]:
    """Values without end from the stream of that seed and parameter name.

    Raises FieldError where a value is too large for a number.
    """
    uniform = stream(seed, name)
    key, values = distribution.key, distribution.value
    if key == "choice":
        while True:
            yield values[below(len(values), uniform)]
    if key == "integer":
        start, stop = values
        while True:
            yield start + below(stop - start, uniform)
    while True:
        yield _number(_DRAWS[key](uniform, *values), key, values)


def stream(seed: int, name: str) -> Uniform:
    """The uniform numbers of one parameter."""
    digest = hashlib.sha256(f"{seed} {name}".encode()).digest()
    return random.Random(int.from_bytes(digest, "big")).random  # noqa: S311


def below(count: int, uniform: Uniform) -> int:
    """A whole number from 0 up to but not `count` ≤ 2^53, each exactly as likely.

    Numbers of the last, incomplete stretch of `count` are drawn again (J. von Neumann's
    rejection), as in OpenBSD's arc4random_uniform.
    """
    whole = _BITS - _BITS % count
    while True:
        number = int(uniform() * _BITS)
        if number < whole:
            return number % count


def _number(value: float, key: str, parameters: list[float]) -> float:
    if not math.isfinite(value):
        shown = f"{{{key}: {parameters}}}"
        hint = "use parameters that are less extreme"
        raise FieldError(f"a value of {shown} is too large for a number", hint, (key,))
    rounded = float(f"{value:.12g}") + 0.0  # which makes 0.0 of -0.0
    if key in ("uniform", "loguniform", "triangular"):
        low, high = parameters[:2]
        return min(max(rounded, low), high)
    return rounded


def _between(low: float, high: float, share: float) -> float:
    # Not low + share × (high − low), where the difference may be too large for a float.
    return low * (1 - share) + high * share


def _uniform(uniform: Uniform, low: float, high: float) -> float:
    return _between(low, high, uniform())


def _loguniform(uniform: Uniform, low: float, high: float) -> float:
    return exp(_between(log(low), log(high), uniform()))


def _triangular(uniform: Uniform, low: float, high: float, mode: float) -> float:
    """By the inverse of the distribution function."""
    share = uniform()
    # Halves, because the width itself may be too large for a float.
    width = high / 2 - low / 2
    if width == 0:
        return low
    rising = (mode / 2 - low / 2) / width
    if share < rising:
        return _between(low, high, math.sqrt(share * rising))
    return _between(high, low, math.sqrt((1 - share) * (1 - rising)))


def _normal(uniform: Uniform) -> float:
    """Mean 0, deviation 1: the polar method of G. Marsaglia and T. A. Bray (1964)."""
    while True:
        x, y = 2 * uniform() - 1, 2 * uniform() - 1
        square = x * x + y * y
        if 0 < square < 1:
            return x * math.sqrt(-2 * log(square) / square)


def _log_gamma(uniform: Uniform, shape: float) -> float:
    """The logarithm of a gamma value of scale 1: G. Marsaglia and W. W. Tsang (2000).

    A logarithm, because with a small shape most values are too small for a float.
    """
    if shape < 1:
        return _log_gamma(uniform, shape + 1) + log(1 - uniform()) / shape
    d = shape - 1 / 3
    c = 1 / math.sqrt(9 * d)
    while True:
        x = _normal(uniform)
        root = 1 + c * x
        if root <= 0:
            continue
        v = root * root * root
        if log(1 - uniform()) < x * x / 2 + d - d * v + d * log(v):
            return log(d) + log(v)


def _gamma(uniform: Uniform, alpha: float, beta: float) -> float:
    return exp(_log_gamma(uniform, alpha) + log(beta))


def _beta(uniform: Uniform, alpha: float, beta: float) -> float:
    """X / (X + Y) of two gamma values."""
    x, y = _log_gamma(uniform, alpha), _log_gamma(uniform, beta)
    return 1 / (1 + exp(y - x))


def _exponential(uniform: Uniform, lambda_: float) -> float:
    return -log(1 - uniform()) / lambda_


def _weibull(uniform: Uniform, alpha: float, beta: float) -> float:
    return alpha * exp(log(-log(1 - uniform())) / beta)


def _gauss(uniform: Uniform, mu: float, sigma: float) -> float:
    return mu + sigma * _normal(uniform)


def _lognormal(uniform: Uniform, mu: float, sigma: float) -> float:
    return exp(_gauss(uniform, mu, sigma))


def _pareto(uniform: Uniform, alpha: float) -> float:
    return exp(-log(1 - uniform()) / alpha)


_DRAWS: dict[str, Callable[..., float]] = {
    "uniform": _uniform,
    "loguniform": _loguniform,
    "triangular": _triangular,
    "beta": _beta,
    "gamma": _gamma,
    "weibull": _weibull,
    "exponential": _exponential,
    "gauss": _gauss,
    "lognormal": _lognormal,
    "pareto": _pareto,
}
