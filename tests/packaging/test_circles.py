"""No module imports itself through others, not for types either."""

from collections.abc import Iterator, Mapping, Set

import grimp

PACKAGES = (
    *("fairway_core", "fairway_constructs", "fairway_stacks", "fairway_agent", "fairway_runner"),
    *("fairway_cli", "fairway_hpc", "fairway_simulator"),
)


def circles(imports: Mapping[str, Set[str]]) -> Iterator[frozenset[str]]:
    """Each largest set of modules that all reach one another.

    `imports` holds what each module imports.
    """
    reached = {module: _reached_from(module, imports) for module in imports}
    seen: set[str] = set()
    for module in sorted(imports):
        if module in reached[module] and module not in seen:
            circle = frozenset(m for m in reached[module] if module in reached[m])
            seen |= circle
            yield circle


def _reached_from(module: str, imports: Mapping[str, Set[str]]) -> set[str]:
    """The modules that it imports, or that those import, and so on."""
    reached: set[str] = set()
    waiting = [module]
    while waiting:
        new = imports.get(waiting.pop(), frozenset()) - reached
        reached |= new
        waiting += new
    return reached


def test_there_are_no_circles() -> None:
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    imports = {each: graph.find_modules_directly_imported_by(each) for each in graph.modules}
    assert len(imports) > 500
    assert [sorted(each) for each in circles(imports)] == []


def test_a_circle_is_found_and_a_line_is_not() -> None:
    line = {"a": {"b"}, "b": {"c"}, "c": set[str]()}
    assert list(circles(line)) == []
    assert list(circles({**line, "c": {"b"}})) == [frozenset({"b", "c"})]
    assert list(circles({**line, "c": {"a"}, "d": {"a"}})) == [frozenset({"a", "b", "c"})]
