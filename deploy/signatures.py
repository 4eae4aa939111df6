"""For the page of the Python API: a default that is a constant is shown by its value (an extension of griffe)."""

from __future__ import annotations

import griffe


class ConstantDefaults(griffe.Extension):
    """Puts the value of a constant in the place of its name: in defaults of parameters and of fields."""

    def on_package(self, *, pkg: griffe.Module, loader: griffe.GriffeLoader, **_: object) -> None:
        """Called by griffe once a package is loaded."""
        _show_values(pkg, loader)


def _show_values(owner: griffe.Object, loader: griffe.GriffeLoader) -> None:
    for member in owner.members.values():
        if isinstance(member, griffe.Function):
            for parameter in member.parameters:
                parameter.default = _value(parameter.default, loader)
        elif isinstance(member, griffe.Attribute) and isinstance(owner, griffe.Class):
            member.value = _value(member.value, loader)
        elif isinstance(member, griffe.Module | griffe.Class):
            _show_values(member, loader)


def _value(default: str | griffe.Expr | None, loader: griffe.GriffeLoader) -> str | griffe.Expr | None:
    """Return the value of the constant that a default names; any other default as it is."""
    if not isinstance(default, griffe.ExprName) or not default.name.isupper():
        return default
    constant = loader.modules_collection[default.canonical_path]
    assert isinstance(constant, griffe.Attribute)
    return constant.value
