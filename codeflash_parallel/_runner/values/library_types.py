"""Values of other libraries (numpy, pandas), told by the names of their types: neither is imported for it."""

import sys


def handler_of(cls):
    """Return the handler for a type of numpy or pandas, or `None`."""
    root = str(cls.__module__).partition(".")[0]
    numpy, pandas = sys.modules.get("numpy"), sys.modules.get("pandas")
    if root == "numpy" and numpy is not None:
        return _of_numpy(cls, numpy)
    if root == "pandas" and pandas is not None:
        return _of_pandas(cls, pandas)
    return None


def _of_numpy(cls, numpy):
    if cls is numpy.ndarray:
        return _array
    if numpy.generic in cls.__mro__:
        return _scalar
    if numpy.dtype in cls.__mro__:
        return _dtype
    return _ufunc if cls is numpy.ufunc else None


def _of_pandas(cls, pandas):
    if cls is pandas.DataFrame:
        return _frame
    if cls is pandas.Series:
        return _series
    if cls in (pandas.Index, pandas.RangeIndex):
        return _index
    return None


def _tag(walk, text):
    walk.write("<%r " % text, "")


def _array(walk, value):
    if walk.met(value):
        return None
    _tag(walk, "numpy.ndarray %s %s" % (value.dtype.str, value.shape))
    dtype = value.dtype
    if dtype.hasobject or dtype.names or dtype.kind not in "biufcSUmM" or _is_long(dtype):
        return _items(walk, value)
    _write_numbers(walk, value)
    walk.write(">", "")
    return None


def _is_long(dtype):
    """Tell a long double: its bytes hold garbage as padding."""
    return dtype.kind in "fc" and dtype.itemsize > (16 if dtype.kind == "c" else 8)


def _items(walk, value):
    if value.dtype.names or value.dtype.hasobject:
        yield value.tolist()
    else:
        yield [repr(item) for item in value.ravel()]
    walk.write(">", "")


def _write_numbers(walk, value):
    if value.dtype.kind in "fc":
        value = _with_one_nan(value)
    text = value.tobytes().hex()
    less = _as_floats(value).tobytes().hex() if value.dtype.kind in "biuf" else text
    if value.dtype.kind in "fc":
        walk.keep_floats(value.ravel().view(value.real.dtype).tolist() if walk.floats is not None else ())
        walk.write_floats(text, "~", less)
    else:
        walk.write(text, less)


def _as_floats(value):
    """Unify numbers by value (integers beyond 2**53 round, which only blurs *how* two values differ)."""
    return value.astype("f8")


def _with_one_nan(value):
    """Give every nan the same bits."""
    strange = value != value  # noqa: PLR0124 - that is what tells a nan
    if strange.any():
        value = value.copy()
        value[strange] = float("nan")
    return value


def _scalar(walk, value):
    _tag(walk, "%s %s" % (type(value).__qualname__, value.dtype.str))
    plain = value.item()
    # A long double and a datetime in nanoseconds have no plain counterpart.
    yield plain if type(plain).__module__ == "builtins" and value.dtype.kind not in "mM" else str(value)
    walk.write(">", "")


def _dtype(walk, value):
    walk.write("<%r>" % ("dtype %s" % (value.descr if value.names else value.str)))


def _ufunc(walk, value):
    walk.write("<%r>" % ("ufunc " + value.__name__))


def _frame(walk, value):
    if walk.met(value):
        return
    _tag(walk, "pandas.DataFrame")
    columns = [_values(value.iloc[:, number]) for number in range(len(value.columns))]
    yield (value.columns, value.index, columns, value.attrs)
    walk.write(">", "")


def _series(walk, value):
    if walk.met(value):
        return
    _tag(walk, "pandas.Series")
    yield (value.name, value.index, _values(value), value.attrs)
    walk.write(">", "")


def _index(walk, value):
    _tag(walk, "pandas." + type(value).__name__)
    yield (list(value.names), _values(value))
    walk.write(">", "")


def _values(column):
    """Return what a column holds: a numpy array, or the items of an extension array with its dtype's name."""
    if type(column.dtype).__module__.partition(".")[0] == "numpy":
        return column.to_numpy()
    return (str(column.dtype), list(column.array))
