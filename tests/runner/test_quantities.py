"""Numbers, sizes and counts as people read them: what their docstrings show."""

import doctest

import pytest

from fairway_runner import quantities


@pytest.mark.parametrize("name", ["number", "size", "counted", "few", "duration", "money"])
def test_quantities_docstring_examples_are_correct(name: str) -> None:
    (test,) = doctest.DocTestFinder().find(getattr(quantities, name), name, module=quantities)
    assert test.examples
    assert doctest.DocTestRunner().run(test).failed == 0
