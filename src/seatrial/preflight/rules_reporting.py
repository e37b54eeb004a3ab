"""Rules on what is left to read: lines as they come, losses that are logged, trackers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from seatrial.preflight.rule import SEEN, TRIAL, Answer, Hit, Open, Rule, Subject, rule
from seatrial.preflight.settings import Settings, settings_of

_TRACKERS = {
    "wandb": ("WANDB_API_KEY", "WANDB_MODE", "WANDB_DISABLED"),
    "comet_ml": ("COMET_API_KEY", "COMET_MODE"),
    "neptune": ("NEPTUNE_API_TOKEN",),
    "clearml": ("CLEARML_API_ACCESS_KEY",),
    "swanlab": ("SWANLAB_API_KEY",),
    "dagshub": ("DAGSHUB_USER_TOKEN",),
}


def _all(subject: Subject) -> tuple[Settings, ...]:
    return settings_of(subject.script) if subject.script is not None else ()


@rule(
    "reporting.output_buffered",
    severity="note",
    ad_hoc="note",
    title="lines that the script prints are held back in a buffer",
    detects="launch",
    needs_script=False,
)
def output_buffered(subject: Subject) -> Iterator[Answer]:
    """Python keeps what is printed to a pipe until 8 KiB are full.

    Why it costs: after a kill the last lines are gone, and they are the ones that say why. Steps,
    losses and evaluations are not affected: the probe writes them line by line itself.

    What it cannot see: what a script flushes itself; a launcher's own setting.

    Remedy: `PYTHONUNBUFFERED=1`, or `python -u`. A trial sets it.

    Example: `seatrial run -- python train.py`
    """
    if not subject.command or subject.trial is None:
        return
    flagged = any(re.fullmatch(r"-[A-Za-z]*u[A-Za-z]*", word) for word in subject.command[1:4])
    printing = subject.script is not None and any(
        call.argument("flush").is_(True) for call in subject.script.calls_named("print")
    )
    if subject.mode == TRIAL or flagged or printing or subject.env.get("PYTHONUNBUFFERED"):
        yield SEEN
    else:
        yield Hit(
            "printed lines are buffered: after a kill the last ones are lost",
            remedy="PYTHONUNBUFFERED=1 in front of the command, or python -u",
            confidence="likely",
        )


@rule(
    "reporting.logging_beyond_end",
    severity="warning",
    ad_hoc="note",
    title="the run ends before its first loss is logged",
    detects="launch",
)
def logging_beyond_end(subject: Subject) -> Iterator[Answer]:
    """`logging_steps` is larger than the steps that are made.

    Why it costs: the script's own log shows no loss. The probe still records each step.

    What it cannot see: values that are computed; `logging_first_step`.

    Remedy: `logging_steps` of a tenth of the run.

    Example: `max_steps=100` with the default of 500.
    """
    cap = subject.trial.bounds.max_steps if subject.trial is not None else None
    for settings in _all(subject):
        if settings.logs_nothing:
            yield Hit(
                "logging is off: the script never says its loss",
                line=settings.get("logging_strategy").line or settings.line,
                observed="no",
                expected="steps",
                remedy='logging_strategy="steps"',
            )
            continue
        every, planned = settings.logging_steps.number, settings.planned_steps
        known = [n for n in (planned.value if planned.found else None, cap) if n is not None]
        if every is None:
            yield Open(settings.unsure("the cadence of logging is computed"))
        elif not known and planned.unknown:
            yield Open(settings.unsure("max_steps is computed"))
        elif known and every > min(known):
            yield Hit(
                f"a loss is logged every {every:g} steps, and the run ends at {min(known)}",
                line=settings.get("logging_steps").line or settings.line,
                observed=every,
                expected=min(known),
                remedy=f"logging_steps={max(1, int(min(known) // 10))}",
            )
        else:
            yield SEEN


@rule(
    "reporting.nan_filter",
    severity="note",
    ad_hoc="note",
    title="the script asks for non-finite losses to be left out of its log",
)
def nan_filter(subject: Subject) -> Iterator[Answer]:
    """`logging_nan_inf_filter=True` replaces a NaN in the log by a running mean.

    Why it costs: the script's log looks healthy while training is broken, and `eval_loss` leaves
    out non-finite rows. Seatrial judges the loss itself, not that log. It is the library's default;
    this rule speaks where a script asks for it.

    What it cannot see: values that are computed.

    Remedy: `logging_nan_inf_filter=False`

    Example: `TrainingArguments(..., logging_nan_inf_filter=True)`
    """
    for settings in _all(subject):
        found = settings.get("logging_nan_inf_filter")
        if found.is_(True):
            yield Hit(
                "logging_nan_inf_filter=True hides non-finite losses from the script's log",
                line=found.line or settings.line,
                remedy="logging_nan_inf_filter=False",
            )
        elif found.unknown:
            yield Open(settings.unsure("logging_nan_inf_filter is computed"))
        else:
            yield SEEN


@rule(
    "reporting.tracker_needs_login",
    severity="warning",
    ad_hoc="note",
    title="a tracker that wants a login is switched on",
    detects="launch",
)
def tracker_needs_login(subject: Subject) -> Iterator[Answer]:
    """`report_to` names a service (or all), and the environment has no key for it.

    Why it costs: on a machine without a login the run asks for one and hangs, or ends.

    What it cannot see: a login that is kept in a file of the machine.

    Remedy: `report_to="none"`; or the key under `secrets` of the trial; or its offline mode.

    Example: `report_to="wandb"`
    """
    yield from _started_trackers(subject)
    for settings in _all(subject):
        found = settings.get("report_to")
        names = [found.value] if isinstance(found.value, str) else found.value
        if found.unknown:
            yield Open(settings.unsure("report_to is computed"))
        elif not isinstance(names, (list, tuple)):
            continue
        else:
            yield from _without_login(
                settings, [str(n).lower() for n in names], subject, found.line
            )


def _known_names(subject: Subject) -> set[str]:
    """Variables of the run, and those that the script itself sets (``WANDB_MODE``)."""
    known = set(subject.env) | set(subject.trial.runner.secrets if subject.trial else ())
    script = subject.script
    names = {name for group in _TRACKERS.values() for name in group}
    if script is not None:
        known |= {
            node.value
            for node in script.index.nodes
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and node.value in names
        }
    return known


def _started_trackers(subject: Subject) -> Iterator[Answer]:
    """``wandb.init()`` and kin that the script calls itself."""
    script = subject.script
    for call in script.calls if script is not None else ():
        name = call.dotted.partition(".")[0]
        if call.dotted not in ("wandb.init", "wandb.login", "comet_ml.start", "neptune.init_run"):
            continue
        own = not call.argument("key").absent or not call.argument("api_token").absent
        if own or call.argument("mode").is_("offline", "disabled"):
            yield SEEN
        elif name in _TRACKERS and not _known_names(subject) & set(_TRACKERS[name]):
            yield Hit(
                f"{call.dotted}() wants a login, and the run's environment has none of "
                f"{', '.join(_TRACKERS[name])}",
                line=call.line,
                observed=name,
                remedy=f'mode="disabled" in a smoke, or secrets = ["{_TRACKERS[name][0]}"]',
                confidence="likely",
            )
        else:
            yield SEEN


def _without_login(
    settings: Settings, names: list[str], subject: Subject, line: int | None
) -> Iterator[Answer]:
    known = _known_names(subject)
    hit = False
    for name in names:
        if name == "all":
            hit = True
            yield Hit(
                'report_to="all" switches every installed tracker on, with its login',
                line=line or settings.line,
                observed="all",
                expected="none",
                remedy='report_to="none", or the one that is meant',
                confidence="likely",
            )
        elif name in _TRACKERS and not known & set(_TRACKERS[name]):
            hit = True
            yield Hit(
                f"report_to={name!r}, and the run's environment has none of "
                f"{', '.join(_TRACKERS[name])}",
                line=line or settings.line,
                observed=name,
                expected="none",
                remedy=f'report_to="none", or secrets = ["{_TRACKERS[name][0]}"] in the trial',
                confidence="likely",
            )
    if not hit:
        yield SEEN


RULES: tuple[Rule, ...] = (output_buffered, logging_beyond_end, nan_filter, tracker_needs_login)
