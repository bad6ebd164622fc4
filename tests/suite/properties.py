"""Settings of property tests: the same examples each time, and no deadline."""

from hypothesis import HealthCheck, settings

tried = settings(
    max_examples=100,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
