"""docs/exit-statuses.md, made from the catalogue of messages: ``python -m docs.exit_statuses`` prints it."""

from __future__ import annotations

import textwrap

from torchwheel.reporting.errors import EXIT_FAILED, EXIT_NOT_PROVED, EXIT_REFUSED
from torchwheel.reporting.messages import read_messages

_WIDTH = 120
_PAGE = """\
# Exit statuses

What `torchwheel` ends with. A hook that pip, build or uv calls ends in the same way; the frontend has its own status.

| status | what it means |
|---|---|
| 0 | right: the command did what you asked |
| {failed} | the build failed, or the system refused something in mid-build; `torchwheel diagnose` reads the log |
| {refused} | the request is wrong, or this machine cannot do it; nothing was built |
| {unproved} | not provable: what was built, or is inspected, is not what was planned; no wheel is delivered |

After a signal it is 128 and the signal's number, as in a shell: 130 after Ctrl-C, 143 after SIGTERM. It is 141 if the
program that reads the output has ended. With several errors it is the status of the first one.

Some commands only answer a question, and their status is the answer:

- `plan`, `doctor` and `get --dry-run` end with {refused} if something would stop the build.
- `diagnose` ends with 1 if the log shows a failure, with {unproved} if it shows neither a failure nor a
  success, and with {refused} if it is no log.
- `inspect` ends with 1 if a wheel was changed or does not run on a GPU of `--gpu`, and with {unproved} if its label is
  false or that is not known.

## Which message ends with which status

`torchwheel explain ID` explains each. Those that are not listed end with {refused}.

{failed}: {failed_ids}

{unproved}: {unproved_ids}
"""


def page() -> str:
    """Return the text of the page."""
    return _PAGE.format(
        failed=EXIT_FAILED,
        refused=EXIT_REFUSED,
        unproved=EXIT_NOT_PROVED,
        failed_ids=_ids(EXIT_FAILED),
        unproved_ids=_ids(EXIT_NOT_PROVED),
    )


def _ids(status: int) -> str:
    ids = sorted({message.id for message in read_messages().values() if message.status == status})
    lines = textwrap.wrap(", ".join(f"`{id}`" for id in ids), _WIDTH - 3, break_on_hyphens=False)
    return "\n".join(lines)


if __name__ == "__main__":
    print(page(), end="")
