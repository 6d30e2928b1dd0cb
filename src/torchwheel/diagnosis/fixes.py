"""Choose the fixes that the system and the builder of a log can apply, and write them as these need them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from torchwheel.diagnosis.facts import Facts
from torchwheel.hardware.gpu_catalogue import read_gpus

_PIP = re.compile(
    r"(?<![\w-])(?<!uv )(?:(?:python -m )?(?P<pip>pip )(?=(?:install(?! --ig)|uninstall|check|list|show|freeze)\b)"
    r"|(?P<python>python )(?=-[cm] ))"
)
_CONDITION = re.compile(r"\[(?P<not>!?)(?P<name>[a-z_]+)(?:=(?P<values>[\w.|-]+))?\] ")
_NAMES = {"Windows": "Windows", "Darwin": "macOS"}
_OF_LINUX = re.compile(r"\b(?:apt|dnf|yum|apk|pacman|dmesg|ldconfig)\b")
_OF_SYSTEM = re.compile(r"(?:or )?(?:[Ii]n |[Oo]n )?(Windows|macOS)\b[:, ]")
_ASIDE_OF_SYSTEM = re.compile(r" \((Windows|macOS): [^()]*\)")
_SETTING = re.compile(r"-C ([a-z][\w.-]*)(?:=(\"[^\"]*\"|[^`\s]*))?")
_ASIDE = re.compile(r" \([^()]*\btorchwheel\b[^()]*\)")
_VARIABLES = {
    "env": "{name}",
    "define": "CMAKE_ARGS=-D{name}",
    "jobs": "MAX_JOBS",
    "arch": "TORCH_CUDA_ARCH_LIST",
    "target": "TORCH_CUDA_ARCH_LIST",
    "cuda-path": "CUDA_HOME",
    "build-type": "CMAKE_BUILD_TYPE",
    "package-version": "PYTORCH_BUILD_VERSION",
    "compiler-cache": "CMAKE_CUDA_COMPILER_LAUNCHER",
}
"""What sets the same for a build that is not torchwheel's."""
_HINT = re.compile(
    r"[Dd]id you (?:mean|forget)\b.*|'[^']{1,60}' can be used\b.*"
    r"|(?:^|(?<=[.;:,(] )|(?<=\bto )(?<!lags to )(?<!ailed to )(?<!able to )(?<!rying to )(?<!sked to ))(?:[Pp]lease )?"
    r"(?:[Uu]se|[Tt]ry|[Rr]un|[Aa]dd|[Ii]nstall|[Cc]onsider|[Uu]pgrade)\b(?! of| \S+/\S+@).+"
)
_UNFINISHED = re.compile(r":\s*$|\b(?:a|an|and|at|by|for|from|in|of|on|or|that|the|through|to|via|with)\W*$")
_LONGEST_HINT = 200
_ASSIGNMENT = re.compile(r"\b[A-Z][A-Z0-9_]{3,}=[\w.;:/-]+")
_ARGUMENT = re.compile(
    r"(?<![\w-])(?:--(?:extra-)?index-url[ =]\S+|--[a-z][\w-]+(?:=[\w.;:/-]+)?|[A-Za-z][\w.-]{3,}=[\w.,;:/-]+)"
)
_SET = re.compile(r"""(?<!\w)([A-Z][A-Z0-9_]{1,60})=("[^"`]{0,300}"|'[^'`]{0,300}'|[^\s"'`]{1,300})""")
_SETTINGS = re.compile(rf"`(?:export )?(?P<settings>(?:{_SET.pattern} ?){{1,9}})(?P<command>[^`]{{0,600}})`")
ALTERNATIVE = re.compile(r"^or,? ")
"""How a fix begins that stands beside another."""
_PLACEHOLDER = re.compile(r"…|\{|=(?:DIR|NAME|VALUE|N)\b")


def choose(fixes: Iterable[str], facts: Facts) -> tuple[str, ...]:
    """Return the fixes that this system and build can apply and have not applied; all, if none is left."""
    every = tuple(fixes)
    fixes = tuple(text for text in every if not _has_applied(text, facts)) or every
    of_system = (_for_system(text, facts.system) for text in fixes)
    of_installer = (_for_installer(text, facts.stated) for text in of_system)
    complete = (_complete(text, facts) for text in of_installer)
    chosen = complete if facts.ours else map(_with_variables, complete)
    if facts.system == "Windows":
        chosen = (_SETTINGS.sub(_for_windows_shells, text) for text in chosen)
    first, *rest = tuple(filter(None, chosen)) or fixes or ("",)
    return tuple(filter(None, (ALTERNATIVE.sub("", first), *rest)))


def meet_conditions(fixes: Iterable[str], known: Mapping[str, str]) -> Iterator[str]:
    """Yield the fixes whose conditions hold.

    ``[name] fix`` where the name is known, ``[name=404|410] fix`` where it has such a value, ``[!name] fix`` where not.
    """
    for fix in fixes:
        condition = _CONDITION.match(fix)
        if condition is None:
            yield fix
            continue
        name, values = condition["name"], condition["values"]
        holds = name in known and (values is None or known[name] in values.split("|"))
        if holds != bool(condition["not"]):
            yield from meet_conditions([fix[condition.end() :]], known)


def join_met(text: str, known: Mapping[str, str]) -> str:
    return " ".join(meet_conditions(text.strip().splitlines(), known))


def tool_hints(lines: Iterable[str]) -> Iterator[str]:
    """Yield what a tool itself advises in its message."""
    for line in lines:
        # One that goes on in the next line is left to the excerpt.
        if (match := _HINT.search(line)) and not _UNFINISHED.search(match[0]):
            yield match[0].strip(" .;,)")[:_LONGEST_HINT]


def _has_applied(fix: str, facts: Facts) -> bool:
    """Whether the log shows all settings of the fix's first command, or of a variable that it names."""
    parts = fix.split("`")
    commands = [*parts[1:2], *(one for part in parts[::2] for one in _ASSIGNMENT.findall(part))]
    settings = (_ARGUMENT.findall(command) for command in commands if not _PLACEHOLDER.search(command))
    words = ([rf"{re.escape(setting)}(?![^\s'\"`,;)\]])" for setting in one] for one in settings)
    return any(one and all(re.search(word, facts.shown) for word in one) for one in words)


def _for_installer(text: str, stated: Mapping[str, str]) -> str:
    """Name the pip of the log: an embedded Python's (not on PATH), or uv's (its environments have none)."""
    if embedded := stated.get("embedded"):
        program = rf".\{embedded}\python.exe "
        return _PIP.sub(lambda found: program + ("-m pip " if found["pip"] else ""), text)
    if "installer" in stated:
        return _PIP.sub(lambda found: "uv pip " if found["pip"] else found[0], text)
    return text


def _for_system(text: str, system: str) -> str:
    name = _NAMES.get(system, "")
    text = _ASIDE_OF_SYSTEM.sub(lambda match: match[0] if match[1] == name else "", text)
    match = _OF_SYSTEM.match(text)
    if (match and match[1] != name) or (name and name not in text and _OF_LINUX.search(text)):
        return ""
    return text


def _for_windows_shells(found: re.Match[str]) -> str:
    """Write variables in front of a command as cmd.exe and PowerShell take them."""
    pairs = [(name, value.strip("\"'")) for name, value in _SET.findall(found["settings"])]
    in_cmd = ", ".join(f"`set {name}={value}`" for name, value in pairs)
    in_powershell = "; ".join(f"$env:{name}='{value}'" for name, value in pairs)
    command = f", then `{found['command']}`" if found["command"] else ""
    return f"{in_cmd} (PowerShell: `{in_powershell}`){command}"


def _with_variables(text: str) -> str:
    """Name the variables that any build reads in place of torchwheel's settings; empty if there are none."""
    text = _ASIDE.sub("", text)
    if re.search(r"`torchwheel (?!inspect|toolkits|explain)", text):
        return ""
    named = [_variable(match[1], match[2] or "") for match in _SETTING.finditer(text)]
    return "" if not all(named) else _SETTING.sub(lambda _found: named.pop(0), text)


def _variable(key: str, value: str) -> str:
    kind, _, name = key.partition(".")
    if key in ("disable", "enable"):
        names = (one.upper().replace("-", "_") for one in value.split(","))
        return " ".join(f"USE_{name}={int(key == 'enable')}" for name in names)
    if (key, value) == ("target", "cpu"):
        return "USE_CUDA=0"
    if (key, value) == ("compiler-cache", "none"):
        value = ""
    if key == "target":
        gpu = read_gpus().find(value)
        value = str(gpu.compute_capability) if gpu else "…"
    return f"{_VARIABLES[kind].format(name=name)}={value}" if kind in _VARIABLES else ""


def _complete(text: str, facts: Facts) -> str:
    """Write numbers of this log where a fix leaves them open."""
    fewer = max(1, int(facts.stated.get("jobs", "4")) // 2)
    text = re.sub(r"(?<=\bjobs=)…", str(fewer), text)
    cuda = facts.torch_cuda or facts.stated.get("nvcc_release", "X.Y")
    text = re.sub(r"(?<=[a-z])-12-8(?: or -13-0)?\b", f"-{cuda.replace('.', '-')}", text)
    return text.replace("-C target=…", f"-C arch={facts.capability}") if facts.capability else text
