"""A tree's wheel: verified against its plan, described in its manifest, compared by that, and its key in the store."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from torchwheel._version import __version__
from torchwheel.engine.configuring import STATE as CONFIGURED
from torchwheel.engine.configuring import cmake_arguments, of_tree, read_cmake_cache
from torchwheel.engine.packing import check_packed, has_packed, packs_the_tree, staged_sources
from torchwheel.engine.record import recorded_contents
from torchwheel.engine.relevant_environment import searched_digest
from torchwheel.host.this import home_names, import_folders
from torchwheel.plan.build_plan import Plan, hash_facts, is_relevant
from torchwheel.plan.defines import unpublished_options
from torchwheel.plan.output import (
    NOT_RECORDED,
    changing_settings,
    decisions_document,
    is_launcher,
    is_only_how,
)
from torchwheel.proof.prove import prove_contents
from torchwheel.reporting.errors import Finding, TorchwheelError, error, stop_on_errors
from torchwheel.reporting.masking import MASK, mask_document
from torchwheel.reporting.terminal import fields_of, join_items
from torchwheel.reproducible import source_date
from torchwheel.settings.config_settings import read_passthrough
from torchwheel.settings.value_types import is_same_value, parse_truth
from torchwheel.system.files import file_sha256
from torchwheel.toolkit.cuda_toolkit import toolkit_packages
from torchwheel.tree.git import is_checkout, known_changes
from torchwheel.tree.source_files import new_files, vendored_libraries
from torchwheel.versions import installed_versions
from torchwheel.wheel.finalize import finalize, replaced_build
from torchwheel.wheel.manifest import as_written, read_manifest
from torchwheel.wheel.proof import Expectation, verify_wheel

_PATH = re.compile(r"[/\\~<]|[A-Za-z]:[/\\]")
"""The beginning of a path, or of a folder's replacement in a manifest."""

_COMPILER = re.compile(
    r"env\.(?:CC|CXX|CUDACXX|CUDAHOSTCXX|NVCC_CCBIN|CCACHE_COMPILER)|define\.CMAKE_[A-Z]+_COMPILER"
)

_DIRTY = "this tree has changes that are not committed"


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
    provenance = describe_provenance(plan, new, findings)
    return finalize(
        built,
        wheel_directory,
        verify=lambda contents: (
            *verify_wheel(contents, expected),
            *(() if editable else (*check_packed(plan, built), *prove_contents(contents, provenance))),
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
        name=plan.tree.name,
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

    It may have paths of this machine, from settings, options or findings, such as ``cuda-path``; finalizing replaces
    the home folder by ``~``, and in a reproducible wheel those of :func:`named_folders` by their names.
    """
    effective, unpublished = of_tree(plan).read_values(), unpublished_options(plan.settings, plan.tree)
    requested = {d.name: d.value for d in plan.defines if not (plan.reproducible and is_launcher(d.name))}
    taken = {name: effective[name] for name in requested if name in effective}
    return {
        **decisions_document(
            plan.settings, findings, reproducible=plan.reproducible, unpublished=unpublished
        ),
        "toolchain": _read_toolchain(plan, effective),
        "source": {
            "version": plan.tree.version_text,
            **fields_of(plan.tree, "commit", "release_tag"),
            "dirty": known_changes(plan.tree.root, dirty=plan.tree.dirty),
            "untracked": len(new) if is_checkout(plan.tree.root) else None,
        },
        # It depends on the folder, too.
        **({} if plan.reproducible else {"fingerprint": plan.fingerprint}),
        "options": {
            "requested": recorded_options(plan, requested),
            "effective": recorded_options(plan, taken),
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
    parts = (effective.get(f"CMAKE_CACHE_{part}_VERSION", "?") for part in ("MAJOR", "MINOR", "PATCH"))
    return {
        "python": plan.host.python.version,
        "cmake": ".".join(parts),
        "generator": effective.get("CMAKE_GENERATOR", ""),
        "tree_backend": plan.tree.backend,
        **_read_compilers(plan),
        **({"cuda": plan.toolkit.full_version} if plan.toolkit else {}),
    }


def _read_compilers(plan: Plan) -> dict[str, str]:
    """CMake's identification of each compiler, from the files beside its cache: so in every CMake since 2.8.10."""
    found = {}
    for language in ("C", "CXX", "CUDA"):
        for file in sorted((plan.folders.build / "CMakeFiles").glob(f"*/CMake{language}Compiler.cmake")):
            text = file.read_text(encoding="utf-8", errors="replace")
            values = dict(re.findall(rf'set\(CMAKE_{language}_COMPILER_(ID|VERSION) "([^"]*)"\)', text))
            if "ID" in values:
                found[f"{language.lower()}_compiler"] = f"{values['ID']} {values.get('VERSION', '')}".strip()
    return found


def describe_difference(plan: Plan, wheel: Path) -> str:
    """Describe why a wheel of the right name is not what the plan would build; empty if it is."""
    try:
        manifest = read_manifest(wheel)
    except (TorchwheelError, OSError) as error:
        return error.problems[0].what if isinstance(error, TorchwheelError) else str(error)
    if manifest is None:
        return "torchwheel did not build it, so nothing is known of its options"
    made = manifest["plan"]
    return _made_otherwise(plan, made) or _made_of_more(plan, made) or _more_than_commit(plan)


def _made_of_more(plan: Plan, made: Mapping[str, Any]) -> str:
    """Describe why a wheel of the plan's commit may have more than that commit; empty if its manifest shows nothing."""
    if made.get("source", {}).get("untracked"):
        return "it was built with files that are not in the commit"
    if skipped := set(made.get("skipped_checks", ())).difference(plan.settings.skip_check):
        return f"it was built with -C skip-check={','.join(sorted(skipped))}"
    return ""


def _more_than_commit(plan: Plan) -> str:
    """Describe why the plan's tree may differ from its commit; empty if git confirms that it does not."""
    if not is_checkout(plan.tree.root):
        return "without git nothing says that this tree is as it was in the commit"
    if plan.tree.dirty:
        return _DIRTY
    words = (word.removeprefix("-C") for word in cmake_arguments(plan))
    named = [word for word in words if Path(word).is_absolute() and os.path.isfile(word)]  # noqa: PTH113
    if named:
        return f"manifests do not record {join_items(named)}, which CMake's arguments name"
    new = new_files(plan.tree)
    return f"this tree has files that are not in the commit: {join_items(new)}" if new else ""


def _made_otherwise(plan: Plan, made: Mapping[str, Any]) -> str:
    """Describe how the plan in a wheel's manifest differs from this plan; empty if it does not."""
    if not is_of_plan(made, plan):
        unknown = [key for key, value in _relevant_choices(made).items() if value in (NOT_RECORDED, MASK)]
        if unknown:
            return f"its build manifest does not tell the values of {', '.join(unknown)}, which it was built with"
        return "it was built with other options"
    commit = made.get("source", {}).get("commit")
    if plan.tree.commit is None or commit != plan.tree.commit:
        known = commit and plan.tree.commit
        return "it was built from another commit" if known else "no commit says that the source is the same"
    if plan.tree.dirty:
        return _DIRTY
    if made["source"].get("dirty"):
        return "it was built from a tree with changes that were not committed"
    return ""


def is_of_plan(made: Mapping[str, Any], plan: Plan) -> bool:
    """Whether a manifest's plan part is from this plan, or from one with the same options elsewhere."""
    planned = _requested_part(plan)
    if made.get("fingerprint") == plan.fingerprint:
        return _handed_on(made) == _handed_on(planned)
    choices = _relevant_choices(made)
    # A manifest does not record possible passwords, so they cannot be compared.
    return not {NOT_RECORDED, MASK}.intersection(choices.values()) and choices == _relevant_choices(planned)


def refuse_to_replace(plan: Plan, wheel: Path) -> tuple[Finding, ...]:
    found = of_another_build(plan, wheel)
    stop_on_errors(found, plan.settings.skip_check)
    return found


def of_another_build(plan: Plan, wheel: Path) -> tuple[Finding, ...]:
    """The error that ``wheel`` exists and is from another build; empty if it may be replaced."""
    return tuple(map(error, replaced_build(wheel, partial(_made_by_another, plan))))


def _made_by_another(plan: Plan, made: Mapping[str, Any]) -> str:
    """Describe why a manifest's plan is from another build; empty if it is not."""
    if not (otherwise := _made_otherwise(plan, made)):
        return ""
    planned = _requested_part(plan)
    old, new = map(_relevant_choices, (made, planned))
    # An isolated environment changes the interpreter and so the fingerprint; reproducible wheels have none.
    if "fingerprint" not in made:
        again = old == new and made.get("unrecorded") == planned.get("unrecorded")
    else:
        again = made["fingerprint"] == plan.fingerprint and _handed_on(made) == _handed_on(planned)
    names = [name for name in new | old if not is_same_value(old.get(name, ""), new.get(name, ""))]
    return "" if again else f"the two differ in {', '.join(names)}" if names else otherwise


def _requested_part(plan: Plan) -> dict[str, Any]:
    """The plan's request in the form of a manifest, with folders replaced like there."""
    unpublished = unpublished_options(plan.settings, plan.tree)
    requested = recorded_options(plan, {define.name: define.value for define in plan.defines})
    options = {"options": mask_document({"requested": requested})}
    folders = {**home_names(os.environ), **(named_folders(plan) if plan.reproducible else {})}
    return as_written({**decisions_document(plan.settings, (), unpublished=unpublished), **options}, folders)


def _handed_on(made: Mapping[str, Any]) -> dict[str, str]:
    """The requested settings of the tree's own backend that change the wheel, such as ``wheel.exclude``."""
    return {key: one for key, one in changing_settings(made).items() if read_passthrough().find_backend(key)}


def _relevant_choices(made: Mapping[str, Any]) -> dict[str, str]:
    """Options, variables and CMake's arguments that change the result; of a path its presence, or a compiler's name."""
    asked = changing_settings(made)
    found = {key: one for key, one in asked.items() if key == "cmake-args" or key.startswith("env.")}
    requested = made.get("options", {}).get("requested", {})
    found |= {name: value for name, value in requested.items() if is_relevant(name) and not is_launcher(name)}
    found = {name: "" if _PATH.match(value) else value for name, value in found.items()}
    compilers = {f"{key} is": re.split(r"[\\/]", asked[key])[-1] for key in asked if _COMPILER.fullmatch(key)}
    return {**_handed_on(made), **compilers, **found}


def wheel_key(
    plan: Plan, uncommitted: Sequence[str], environment: Mapping[str, str], variables: str
) -> str | None:
    """Return the key of a plan's wheel, before or right after a build in its locked folders.

    The records that it is made of are up to date then. It is None before the first build and after one that failed;
    ``variables`` is the digest of those that the build may depend on.
    """
    folders = plan.folders
    if packs_the_tree(plan) and not has_packed(plan):
        return None
    records = (folders.root / CONFIGURED, folders.build / "build.ninja")
    if (read := recorded_contents(folders.build)) is None:
        return None
    try:
        contents = [file_sha256(record).hex() for record in records]
        manifest = describe_provenance(plan, uncommitted)
    except (OSError, TorchwheelError):
        return None
    # Such settings do not change the wheel; nor do findings, which describe this machine at one moment.
    layers = [layer for layer in manifest["layers"] if not is_only_how(layer["key"])]
    parts = {
        "torchwheel's release": __version__,
        "the wheel's name": plan.wheel_name,
        "the plan": {**manifest, "layers": layers},
        "SOURCE_DATE_EPOCH": str(source_date(environment)),
        "the environment": variables,
        "folders that CMake searches": searched_digest(plan, environment),
        "settings of the tree's backend": dict(plan.inner_config_settings),
        "packages of the build environment": _installed_packages(folders.environment),
        "what the steps read": read,
        "the sources": staged_sources(plan),
        "files that CMake reads, and ninja's commands": contents,
    }
    return hash_facts(parts)


def _installed_packages(environment: Path | None) -> list[str]:
    """The packages that the tree's own backend can import: from its environment, else from this process's."""
    path = [str(folder) for folder in import_folders(environment)]
    return sorted(f"{name} {version}" for name, version in installed_versions(path).items())
