"""Finalize a tree's wheel: verify it against its plan, and add the plan's part of its build manifest."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from torchwheel.engine.configuring import of_tree, read_cmake_cache
from torchwheel.engine.packing import check_packed
from torchwheel.plan.build_plan import Plan
from torchwheel.plan.defines import unpublished_options
from torchwheel.plan.output import NOT_RECORDED, decisions_document, is_launcher
from torchwheel.proof.prove import prove_contents
from torchwheel.reporting.errors import Finding
from torchwheel.settings.value_types import parse_truth
from torchwheel.toolkit.read_toolkit import toolkit_packages
from torchwheel.tree.git import is_checkout, known_changes
from torchwheel.tree.vendored import vendored_libraries
from torchwheel.wheel.finalize import finalize
from torchwheel.wheel.proof import Expectation, verify_wheel


def finalize_wheel(
    plan: Plan,
    built: Path,
    wheel_directory: Path,
    prepared: bytes | None,
    environment: Mapping[str, str],
    findings: Iterable[Finding],
    new: Collection[str] = (),
    *,
    editable: bool,
) -> Path:
    expected = expected_wheel(plan, prepared, editable=editable)
    packed = () if editable else tuple(check_packed(plan, built))
    provenance = describe_provenance(plan, new, findings)
    return finalize(
        built,
        wheel_directory,
        verify=lambda contents: (
            *verify_wheel(contents, expected),
            *packed,
            *(() if editable else prove_contents(contents, provenance)),
        ),
        skip_check=plan.settings.skip_check,
        provenance=provenance,
        environment=environment,
        folders=named_folders(plan),
        libraries=vendored_libraries(plan.tree.root),
        toolkit=toolkit_packages(plan.toolkit) if plan.toolkit else (),
        # An editable wheel may have any tag.
        name=None if editable else plan.wheel_name,
    )


def expected_wheel(plan: Plan, prepared_metadata: bytes | None, *, editable: bool) -> Expectation:
    return Expectation(
        name=plan.distribution,
        version=str(plan.version),
        cuda=plan.toolkit.version if plan.toolkit else None,
        architectures=plan.architectures,
        python_tag=plan.host.python.interpreter_tag,
        abi_tag=plan.host.python.abi_tag,
        platform_tag=plan.host.platform_tag,
        prepared_metadata=prepared_metadata,
        # For PyTorch no other build type is a debug build: tools/generate_torch_version.py.
        debug=plan.settings.build_type == "Debug",
        editable=editable,
    )


def describe_provenance(
    plan: Plan, new: Collection[str] = (), findings: Iterable[Finding] = ()
) -> dict[str, Any]:
    """Return the manifest's plan part, see ``manifest.schema.json``.

    It may have paths of this machine, from settings, options or findings, such as ``cuda-path`` and
    ``Python_EXECUTABLE``; finalizing replaces the home folder by ``~``, and in a reproducible wheel those of
    :func:`named_folders` by their names.
    """
    effective = of_tree(plan).read_values()
    options = [d for d in plan.defines if not (plan.reproducible and is_launcher(d.name))]
    return {
        **decisions_document(
            plan.settings,
            findings,
            reproducible=plan.reproducible,
            unpublished=unpublished_options(plan.settings, plan.tree),
        ),
        "toolchain": _read_toolchain(plan, effective),
        "source": {
            "version": plan.tree.version_text,
            "commit": plan.tree.commit,
            "release_tag": plan.tree.release_tag,
            "dirty": known_changes(plan.tree.root, dirty=plan.tree.dirty),
            "untracked": len(new) if is_checkout(plan.tree.root) else None,
        },
        # It depends on the folder, too.
        **({} if plan.reproducible else {"fingerprint": plan.fingerprint}),
        "options": {
            "requested": recorded_options(plan, {d.name: d.value for d in options}),
            "effective": recorded_options(
                plan, {d.name: effective[d.name] for d in options if d.name in effective}
            ),
            "switched_off": switched_off(plan, effective),
        },
    }


def recorded_options(plan: Plan, values: Mapping[str, str]) -> dict[str, str]:
    unpublished = unpublished_options(plan.settings, plan.tree)
    return {name: NOT_RECORDED if name in unpublished else value for name, value in values.items()}


def named_folders(plan: Plan) -> dict[str, str]:
    """The folders of this machine to replace in a reproducible wheel, with their names."""
    toolkit = {plan.toolkit.root: "<toolkit>"} if plan.toolkit else {}
    return {
        str(plan.tree.root): "<tree>",
        str(plan.folders.cache): "<cache>",
        str(plan.folders.root): "<build>",
        sys.prefix: "<python>",
        **toolkit,
    }


def switched_off(plan: Plan, effective: Mapping[str, str]) -> list[str]:
    """Find the tree's options that are on by default and that CMake switched off without a request.

    PyTorch's CMake files do that if a dependency is not found, in CMakeCache.txt (``caffe2_update_option``,
    https://github.com/pytorch/pytorch/blob/v2.6.0/cmake/public/utils.cmake) or by a plain ``set``. An option that
    depends on one that is off does not count.
    """
    declared = read_cmake_cache(plan.folders.cmake_cache, internal=False)
    planned = {define.name for define in plan.defines if parse_truth(define.value) is False}
    return [
        name
        for name, option in plan.tree.options.items()
        if option.type == "BOOL"
        and name in declared.keys() - planned
        and parse_truth(option.default) is True
        and parse_truth(effective.get(name, "ON")) is False
    ]


def _read_toolchain(plan: Plan, effective: Mapping[str, str]) -> dict[str, str]:
    version = ".".join(
        effective.get(f"CMAKE_CACHE_{part}_VERSION", "?") for part in ("MAJOR", "MINOR", "PATCH")
    )
    chain = {
        "python": plan.host.python.version,
        "cmake": version,
        "generator": effective.get("CMAKE_GENERATOR", ""),
        "tree_backend": plan.tree.backend,
        **_read_compilers(plan),
    }
    if plan.toolkit is not None:
        chain["cuda"] = plan.toolkit.full_version
    return chain


def _read_compilers(plan: Plan) -> dict[str, str]:
    """Read CMake's identification of each compiler from the files beside its cache.

    Source: CMakeFiles/<cmake version>/CMake<LANG>Compiler.cmake of every CMake since 2.8.10.
    """

    found = {}
    for language in ("C", "CXX", "CUDA"):
        for file in sorted((plan.folders.build / "CMakeFiles").glob(f"*/CMake{language}Compiler.cmake")):
            text = file.read_text(encoding="utf-8", errors="replace")
            values = dict(re.findall(rf'set\(CMAKE_{language}_COMPILER_(ID|VERSION) "([^"]*)"\)', text))
            if "ID" in values:
                found[f"{language.lower()}_compiler"] = f"{values['ID']} {values.get('VERSION', '')}".strip()
    return found
