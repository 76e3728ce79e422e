"""Each kind of statement, for coverage_test.py, which asserts counters by these line numbers."""

from __future__ import annotations

import contextlib

LIMIT = 2 if contextlib else 3


def plain(x: Undefined = LIMIT):  # noqa: F821 - an annotation is not evaluated
    """A docstring."""
    global LIMIT
    LIMIT = LIMIT + 0
    a = 1; b = 2  # noqa: E702
    return (
        x + a
        + b
    )


def branches(x):
    if x > 1:
        y = 1
    elif x == 1:
        y = 2
    else:
        y = 3
    if x < 0:
        y = -y
    return y


def loops(n):
    total = 0
    for i in range(n):
        if i == 3:
            break
        total += i
    else:
        total += 100
    while total > 1000:
        total -= 1
    return total


def errors(kind):
    try:
        if kind:
            raise kind("told")
    except ValueError as error:
        return str(error)
    except KeyError:
        raise
    else:
        kind = 0
    finally:
        LOG.append(kind)
    with contextlib.suppress(KeyError):
        raise KeyError
    return kind


def values(x, y):
    sign = "plus" if x > 0 else "minus"
    both = x and y
    either = x or y
    double = [2 * i for i in range(x)]
    twice = {i: f"{i if y else 0}" for i in range(y)}
    later = lambda z: z + 1  # noqa: E731
    return sign, both, either, double, twice, later


def matched(x):
    match x:
        case 0:
            return "zero"
        case [a, b] if a and b:
            return "pair"
        case _:
            return "other"


class Thing:
    """A class of its own."""

    kind = "thing"

    @property
    def inner(self):
        def deeper():
            return __class__

        class Local:
            def method(self):
                nonlocal_free = 1
                return nonlocal_free

        return deeper, Local

    def generate(self):
        received = yield 1
        yield received


def stub(): ...


def compile(function):  # what torch.compile is to the rewriting: a name
    return function


@compile
def left_alone(x):
    if x:
        return 1
    return 2


LOG = []
