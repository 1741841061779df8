"""Numbers that callers give, before they become numbers of C, where -1 means that none is given."""
import math
import operator

LARGEST = (1 << 63) - 1
INT_MAX = (1 << 31) - 1


def whole_number(name, value):
    """NumPy's too; None stays None."""
    if value is None:
        return None
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    raise TypeError(f"{name}={value!r}: a whole number is wanted")


def count(name, value):
    """From 0 on; what more there is to be said of it the daemon knows."""
    number = whole_number(name, value)
    if number is not None and not 0 <= number <= LARGEST:
        raise ValueError(f"{name}={number} is not within 0 .. {LARGEST}")
    return number


def milliseconds(timeout):
    return -1 if timeout is None or timeout == math.inf else round(min(max(timeout * 1000, 1), INT_MAX))
