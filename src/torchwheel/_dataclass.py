"""What torchwheel uses of :mod:`dataclasses`, without its cost when a program starts.

The standard decorator imports ``inspect`` and compiles six methods and more for every class, half a millisecond each
time; here all frozen classes share the same methods, which go by the names of the fields.

Type checkers see the standard decorator, and the functions of :mod:`dataclasses` take these classes for its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

__all__ = ["dataclass", "field", "fields", "replace"]

_T = TypeVar("_T")


class _Field:
    """One field: its name, what :func:`dataclasses.field` would be given for it, and its metadata."""

    def __init__(self, **given: Any) -> None:
        self.name = ""
        self.given = given
        self.metadata: Mapping[str, Any] = given.get("metadata", {})


class _Shape:
    """What the shared methods have to know of a class."""

    def __init__(self, members: dict[str, _Field], *, kw_only: bool) -> None:
        self.fields = tuple(members.values())
        self.names = tuple(members)
        self.name_set = frozenset(members)
        self.positional = () if kw_only else self.names
        self.defaults = [(f.name, f.given["default"]) for f in self.fields if "default" in f.given]
        self.factories = [
            (f.name, f.given["default_factory"]) for f in self.fields if "default_factory" in f.given
        ]


class _StandardFields:
    """``__dataclass_fields__``, made only when a function of the standard module asks for it."""

    def __get__(self, instance: object, owner: Any) -> Any:
        import dataclasses

        members = [(f.name, "object", dataclasses.field(**f.given)) for f in owner._shape.fields]
        return vars(dataclasses.make_dataclass(owner.__name__, members, kw_only=True))["__dataclass_fields__"]


def _dataclass(*, frozen: bool, order: bool = False, kw_only: bool = False) -> Callable[[type[_T]], type[_T]]:
    """:func:`dataclasses.dataclass` for classes that are frozen; ``kw_only`` also holds for inherited fields."""
    if not frozen:
        raise TypeError("only frozen classes can share their methods")
    methods = {**_METHODS, **_COMPARISONS} if order else _METHODS

    def decorate(cls: Any) -> Any:
        inherited = getattr(cls, "_shape", None)
        members = {f.name: f for f in inherited.fields} if inherited else {}
        members.update((name, _declared(cls, name)) for name in cls.__annotations__)
        cls._shape = _Shape(members, kw_only=kw_only)
        for name, method in methods.items():
            # Python itself puts None for __hash__ where a class has an __eq__ of its own.
            if cls.__dict__.get(name) is None:
                setattr(cls, name, method)
        return cls

    return decorate


def _declared(cls: Any, name: str) -> _Field:
    """The field of an annotation in the class body, with the default that is assigned there."""
    assigned = cls.__dict__.get(name, _Field())
    found = assigned if isinstance(assigned, _Field) else _Field(default=assigned)
    found.name = name
    if "default" in found.given:
        setattr(cls, name, found.given["default"])
    elif name in cls.__dict__:
        delattr(cls, name)
    return found


def _fields(of: Any) -> tuple[_Field, ...]:
    """:func:`dataclasses.fields`: the fields of a class or of its value, with ``name`` and ``metadata``."""
    shape: _Shape = of._shape
    return shape.fields


def _replace(value: _T, /, **changes: Any) -> _T:
    """:func:`dataclasses.replace`."""
    held = value.__dict__
    return type(value)(**{**{name: held[name] for name in value._shape.names}, **changes})  # type: ignore[attr-defined]


def _init(self: Any, /, *values: Any, **named: Any) -> None:
    shape, held = self._shape, self.__dict__
    held.update(zip(shape.positional, values))  # noqa: B905 - a surplus shows in the number of what is held
    held.update(named)
    distinct = len(held) == len(values) + len(named)
    if len(held) < len(shape.names):
        for name, default in shape.defaults:
            held.setdefault(name, default)
        for name, make in shape.factories:
            if name not in held:
                held[name] = make()
    if not distinct or held.keys() != shape.name_set:
        raise TypeError(_mismatch(self, values, named))
    self.__post_init__()


def _mismatch(self: Any, values: tuple[Any, ...], named: Mapping[str, Any]) -> str:
    given = [f"{len(values)} values", *named]
    return (
        f"{type(self).__qualname__}() takes {', '.join(self._shape.names)}; it was given {', '.join(given)}"
    )


def _values(self: Any) -> tuple[Any, ...]:
    return tuple(map(self.__dict__.__getitem__, self._shape.names))


def _repr(self: Any) -> str:
    shown = (f.name for f in self._shape.fields if f.given.get("repr", True))
    return f"{type(self).__qualname__}({', '.join(f'{name}={self.__dict__[name]!r}' for name in shown)})"


def _eq(self: Any, other: Any) -> Any:
    return _values(self) == _values(other) if type(self) is type(other) else NotImplemented


def _hash(self: Any) -> int:
    return hash(_values(self))


def _set(self: Any, name: str, value: Any) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _delete(self: Any, name: str) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _post_init(self: Any) -> None:
    """Nothing, where a class has no checks of its own."""


def _lt(self: Any, other: Any) -> Any:
    return _values(self) < _values(other) if type(self) is type(other) else NotImplemented


def _le(self: Any, other: Any) -> Any:
    return _values(self) <= _values(other) if type(self) is type(other) else NotImplemented


def _gt(self: Any, other: Any) -> Any:
    return _values(self) > _values(other) if type(self) is type(other) else NotImplemented


def _ge(self: Any, other: Any) -> Any:
    return _values(self) >= _values(other) if type(self) is type(other) else NotImplemented


_METHODS = {
    "__init__": _init,
    "__post_init__": _post_init,
    "__repr__": _repr,
    "__eq__": _eq,
    "__hash__": _hash,
    "__setattr__": _set,
    "__delattr__": _delete,
    "__dataclass_fields__": _StandardFields(),
}
_COMPARISONS = {"__lt__": _lt, "__le__": _le, "__gt__": _gt, "__ge__": _ge}

if TYPE_CHECKING:
    from dataclasses import dataclass, field, fields, replace
else:
    dataclass, field, fields, replace = _dataclass, _Field, _fields, _replace
