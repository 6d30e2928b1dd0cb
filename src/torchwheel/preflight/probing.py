"""Asking several slow questions at once, and not waiting for those that nobody answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from threading import Thread
from typing import Any

Question = Callable[[], Any]


def ask_together(questions: Mapping[str, Question], seconds: float) -> dict[str, Any]:
    """Answers by name; a question that takes longer than ``seconds``, or that raises, is not among them.

    What is still running then goes on as a daemon, so it does not keep the process alive.
    """
    answers: dict[str, Any] = {}

    def ask(name: str, question: Question) -> None:
        try:
            answers[name] = question()
        except Exception:
            # A machine that cannot be asked is a machine about which nothing is known.
            return

    threads = [Thread(target=ask, args=item, daemon=True) for item in questions.items()]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return dict(answers)
