"""The light dataclasses, held against the standard ones that type checkers take them for."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import pytest

from torchwheel import _dataclass as light


def classes(module: Any) -> dict[str, Any]:
    """The same classes, made by one of the two modules."""

    @module.dataclass(frozen=True)
    class Point:
        x: int
        y: int = 2
        names: dict[str, int] = module.field(default_factory=dict)
        hidden: str = module.field(default="h", repr=False)

    @module.dataclass(frozen=True, order=True)
    class Version:
        major: int
        minor: int = 0

        def __post_init__(self) -> None:
            if self.major < 0:
                raise ValueError("negative")

    @module.dataclass(frozen=True, kw_only=True)
    class Base:
        first: int = module.field(default=1, metadata={"title": "the first"})

    @module.dataclass(frozen=True, kw_only=True)
    class Heir(Base):
        second: tuple[int, ...] = ()

        def __eq__(self, other: object) -> bool:
            return isinstance(other, type(self)) and self.second == other.second

    @module.dataclass(frozen=True)
    class Nothing:
        pass

    return {"Point": Point, "Version": Version, "Base": Base, "Heir": Heir, "Nothing": Nothing}


LIGHT, STANDARD = classes(light), classes(dataclasses)

CALLS = [
    ("Point", (1,), {}),
    ("Point", (1, 3, {"a": 1}, "x"), {}),
    ("Point", (), {"x": 1, "hidden": "?"}),
    ("Point", (1,), {"y": 5}),
    ("Point", (), {}),
    ("Point", (1,), {"x": 1}),
    ("Point", (1, 2), {"y": 2}),
    ("Point", (1, 2, {}, "h", 5), {}),
    ("Point", (1,), {"z": 1}),
    ("Point", (), {"y": 1, "z": 1}),
    ("Version", (1, 2), {}),
    ("Version", (-1,), {}),
    ("Heir", (), {"first": 3, "second": (1,)}),
    ("Heir", (), {"second": (1,)}),
    ("Heir", (3,), {}),
    ("Nothing", (), {}),
    ("Nothing", (1,), {}),
]


def outcome(made: dict[str, Any], name: str, values: tuple[Any, ...], named: dict[str, Any]) -> object:
    try:
        value = made[name](*values, **named)
    except (TypeError, ValueError) as error:
        return type(error)
    return dataclasses.asdict(value), repr(value), [field.name for field in dataclasses.fields(value)]


@pytest.mark.parametrize(("name", "values", "named"), CALLS)
def test_calls_end_as_with_the_standard_module(
    name: str, values: tuple[Any, ...], named: dict[str, Any]
) -> None:
    assert outcome(LIGHT, name, values, named) == outcome(STANDARD, name, values, named)


@pytest.mark.parametrize("made", [LIGHT, STANDARD], ids=["light", "standard"])
def test_values_compare_hash_and_stay_as_they_are(made: dict[str, Any]) -> None:
    version, heir = made["Version"], made["Heir"]
    assert version(1, 2) == version(1, 2) != version(1, 3)
    assert version(1, 2) != made["Nothing"]()
    assert sorted([version(2), version(1, 9), version(1)]) == [version(1), version(1, 9), version(2)]
    assert (
        version(1) < version(1, 1),
        version(1) >= version(1),
        version(2) > version(1),
        version(1) <= version(0),
    ) == (
        True,
        True,
        True,
        False,
    )
    assert len({version(1), version(1, 0), version(2)}) == 2
    assert heir(first=1, second=(1,)) == heir(first=2, second=(1,))
    assert isinstance(hash(heir()), int)
    with pytest.raises(TypeError):
        hash(made["Point"](1))
    with pytest.raises(TypeError):
        _ = version(1) < 2
    for change in (
        lambda v: setattr(v, "major", 2),
        lambda v: delattr(v, "major"),
        lambda v: setattr(v, "new", 2),
    ):
        with pytest.raises(dataclasses.FrozenInstanceError):
            change(version(1))


@pytest.mark.parametrize(
    ("made", "replace"),
    [(LIGHT, light.replace), (LIGHT, dataclasses.replace), (STANDARD, dataclasses.replace)],
    ids=["light", "light by the standard function", "standard"],
)
def test_replace(made: dict[str, Any], replace: Any) -> None:
    value = made["Point"](1, names={"a": 1})
    assert replace(value, y=3) == made["Point"](1, 3, {"a": 1})
    assert replace(value, y=3).names is value.names
    with pytest.raises(TypeError):
        replace(value, z=3)
    with pytest.raises(ValueError, match="negative"):
        replace(made["Version"](1), major=-1)


def test_defaults_are_class_attributes_and_fields_have_metadata() -> None:
    for module, made in ((light, LIGHT), (dataclasses, STANDARD)):
        assert (made["Point"].y, made["Point"].hidden, hasattr(made["Point"], "names")) == (2, "h", False)
        fields = module.fields(made["Heir"])
        assert [(field.name, dict(field.metadata)) for field in fields] == [
            ("first", {"title": "the first"}),
            ("second", {}),
        ]


def test_only_frozen_classes_are_made() -> None:
    with pytest.raises(TypeError, match="frozen"):
        light.dataclass(frozen=False)


def test_the_message_names_what_was_given() -> None:
    with pytest.raises(TypeError) as caught:
        LIGHT["Version"](1, 2, minus=3)
    assert str(caught.value).endswith("Version() takes major, minor; it was given 2 values, minus")


def test_real_values_are_copied_and_pickled() -> None:
    from torchwheel.hardware.arch import parse_architectures

    value = parse_architectures("9.0;12.0+PTX")
    assert copy.deepcopy(value) == pickle.loads(pickle.dumps(value)) == value
