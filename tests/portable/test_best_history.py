"""The true best: recomputed from evaluations, and the nine cases of a real Trainer's fields."""

from __future__ import annotations

import math
from typing import Any, Dict, List, Optional, Tuple

from seatrial.core.best import (
    Evaluated,
    History,
    Recorded,
    Wish,
    direction_of,
    history_of,
    known_direction,
    true_best,
)
from seatrial.core.best_judgement import BestCase, judge_best
from seatrial.core.finding import Finding

NAN = math.nan
STEPS = (10, 20, 30, 40, 50, 60)
LOSSES = (1.0, 0.9, 0.5, 0.7, 0.8, 0.85)


def folder(step: int) -> str:
    return f"/run/checkpoint-{step}"


def made(
    values: Tuple[float, ...] = LOSSES,
    *,
    recorded: Tuple[Optional[float], Optional[int], Optional[int]],
    saved: Tuple[int, ...] = STEPS,
    ever: Optional[Tuple[int, ...]] = None,
    greater: bool = False,
    load_best: bool = True,
    metric: Optional[str] = "eval_loss",
    saves: str = "steps",
    steps: Tuple[int, ...] = STEPS,
    **rest: Any,
) -> BestCase:
    value, step, at = recorded
    name = metric or "eval_loss"
    evaluations = [Evaluated(s, {name: v}) for s, v in zip(steps, values)]
    told = Recorded(value, step, None if at is None else folder(at))
    return BestCase(
        history=history_of(name, evaluations, told),
        greater=greater,
        wish=Wish(metric=metric, greater=greater, load_best=load_best, saves=saves),
        recorded=told,
        saved={step: folder(step) for step in saved},
        ever_saved=frozenset(saved if ever is None else ever),
        **rest,
    )


def only(case: BestCase) -> Finding:
    found = judge_best(case)
    assert len(found) == 1, found
    return found[0]


def silent(case: BestCase) -> None:
    assert judge_best(case) == ()


# -- the nine cases: what transformers 5.23 really records ------------------------------------


def test_every_step_saved_is_sound() -> None:
    case = made(recorded=(0.5, 30, 30))
    silent(case)
    assert case.best == case.best_saved == (30, 0.5)


def test_a_best_between_two_saves_is_an_error_that_names_both_steps() -> None:
    case = made(recorded=(0.5, 30, 20), saved=(20, 40, 60))
    found = only(case)
    assert (found.code, found.severity) == ("best_checkpoint.not_best", "error")
    assert found.evidence.observed == {"step": 20, "value": 0.9}
    assert found.evidence.expected == {"step": 30, "value": 0.5}
    assert "step 20" in found.message and "step 30" in found.message
    assert "step 40 (eval_loss 0.7)" in found.message  # the best of what is there
    assert case.best_saved == (40, 0.7)


def test_a_best_before_the_first_save_leaves_no_path_at_all() -> None:
    values = (0.1, 0.9, 0.5, 0.7, 0.8, 0.85)
    found = only(made(values, recorded=(0.1, 10, None), saved=(20, 40, 60)))
    assert (found.code, found.severity) == ("best_checkpoint.not_saved", "error")
    assert "step 10" in found.message and "step 40" in found.message
    warned = made(values, recorded=(0.1, 10, None), saved=(20, 40, 60), load_best=False)
    assert only(warned).severity == "warning"


def test_a_limit_of_one_keeps_best_and_last() -> None:
    silent(made(recorded=(0.5, 30, 30), saved=(30, 60), ever=STEPS))


def test_saving_only_what_is_better_is_sound() -> None:
    silent(made(recorded=(0.5, 30, 30), saved=(10, 20, 30), saves="best"))


def test_every_loss_nan_is_an_error() -> None:
    case = made((NAN,) * 6, recorded=(math.inf, None, None))
    found = only(case)
    assert (found.code, found.severity) == ("best_checkpoint.all_nan", "error")
    assert case.best is None and case.best_saved is None
    unasked = made((NAN,) * 6, recorded=(None, None, None), metric=None, load_best=False)
    assert only(unasked).severity == "warning"


def test_a_wrong_direction_keeps_the_worst() -> None:
    found = only(made(recorded=(1.0, 10, 10), greater=True))
    assert (found.code, found.severity) == ("best_checkpoint.wrong_direction", "error")
    assert "step 10" in found.message


def test_of_equal_losses_the_earliest_wins() -> None:
    case = made((0.5,) * 6, recorded=(0.5, 10, 10))
    silent(case)
    assert case.best == (10, 0.5)


def test_a_resumed_run_with_an_old_best_has_no_best() -> None:
    steps = tuple(500 + step for step in STEPS)
    case = made(recorded=(0.1, 500, None), steps=steps, saved=steps, resumed_at=500)
    found = only(case)
    assert (found.code, found.severity) == ("best_checkpoint.old_best", "error")
    assert found.evidence.observed == 500 and found.evidence.expected == 530
    # The log of a resumed run may still hold the old evaluation.
    kept = made(
        (0.1, *LOSSES), recorded=(0.1, 500, None), steps=(500, *steps), saved=steps, resumed_at=500
    )
    assert only(kept).code == "best_checkpoint.old_best"


# -- further faults, each with its twin -------------------------------------------------------


def test_a_resumed_run_whose_old_best_is_there_is_sound() -> None:
    steps = (500, *(500 + step for step in STEPS))
    values = (0.1, *LOSSES)
    silent(made(values, recorded=(0.1, 500, 500), steps=steps, saved=steps, resumed_at=500))


def test_a_value_of_another_step_is_an_error() -> None:
    found = only(made(recorded=(0.8, 50, 50)))
    assert found.code == "best_checkpoint.not_best"
    assert "step 50" in found.message and "step 30" in found.message


def test_the_highest_number_taken_for_the_best_is_named() -> None:
    found = only(made(recorded=(0.5, 30, 60)))
    assert found.code == "best_checkpoint.not_best"
    assert "highest-numbered" in found.message


def test_a_null_path_beside_a_saved_best_is_an_error() -> None:
    found = only(made(recorded=(0.5, 30, None)))
    assert (found.code, found.severity) == ("best_checkpoint.none_recorded", "error")
    silent(made(recorded=(0.5, None, None), saved=(), saves="no", load_best=False))


def test_nothing_recorded_although_asked() -> None:
    found = only(made(recorded=(None, None, None)))
    assert (found.code, found.severity) == ("best_checkpoint.none_recorded", "error")


def test_nothing_recorded_and_nothing_asked_is_a_note() -> None:
    case = made(recorded=(None, None, None), metric=None, load_best=False)
    found = only(case)
    assert (found.code, found.severity) == ("best_checkpoint.not_recorded", "note")
    assert "step 30" in found.message
    silent(made(recorded=(None, None, None), metric=None, load_best=False, saved=()))


def test_a_folder_that_is_gone_is_an_error_and_a_moved_one_a_note() -> None:
    gone = made(recorded=(0.5, 30, 30), saved=(40, 50, 60), ever=STEPS, gone=True)
    assert (only(gone).code, only(gone).severity) == ("best_checkpoint.folder_gone", "error")
    moved = made(recorded=(0.5, 30, 30), gone=True)
    assert (only(moved).code, only(moved).severity) == ("best_checkpoint.moved", "note")


def test_a_best_of_an_earlier_run_is_an_error() -> None:
    stale = made(recorded=(0.5, 30, 30), stale=frozenset([folder(30)]))
    assert (only(stale).code, only(stale).severity) == ("best_checkpoint.stale", "error")
    resumed = made(recorded=(0.5, 30, 30), stale=frozenset([folder(30)]), resumed_at=40)
    silent(resumed)


def test_some_nan_evaluations_are_a_warning_and_never_win() -> None:
    case = made((NAN, 0.9, 0.5, NAN, 0.8, 0.85), recorded=(0.5, 30, 30))
    found = only(case)
    assert (found.code, found.severity) == ("best_checkpoint.nan_evaluation", "warning")
    assert case.best == (30, 0.5)


def test_no_evaluation_is_a_note_without_a_trial_and_a_warning_with_one() -> None:
    assert only(made((), recorded=(None, None, None))).severity == "note"
    assert only(made((), recorded=(None, None, None), ad_hoc=False)).severity == "warning"
    silent(made((), recorded=(None, None, None), load_best=False, metric=None))


def test_the_last_step_as_best_and_one_evaluation_are_sound() -> None:
    silent(made((1.0, 0.9, 0.8, 0.7, 0.6, 0.5), recorded=(0.5, 60, 60), saved=(60,), ever=STEPS))
    silent(made((1.0,), steps=(10,), recorded=(1.0, 10, 10), saved=(10,)))


def test_float32_figures_are_the_same_figures() -> None:
    silent(made(recorded=(0.5000000149, 30, 30)))


def test_a_step_that_was_evaluated_again_after_training_is_no_fault() -> None:
    told = Recorded(0.5, 30, folder(30))
    values = [*zip(STEPS, LOSSES), (60, 0.5)]  # the best was loaded, and evaluated again at 60
    evaluations = [Evaluated(step, {"eval_loss": value}) for step, value in values]
    history = history_of("loss", evaluations, told)
    assert history.value_at(60) == 0.85 and history.unclear == {60}
    case = BestCase(
        history, False, Wish("loss", False, True), told,
        {step: folder(step) for step in STEPS}, frozenset(STEPS),
    )  # fmt: skip
    silent(case)


# -- the parts --------------------------------------------------------------------------------


def test_the_evaluation_before_training_is_no_candidate() -> None:
    made_at = [Evaluated(0, {"eval_loss": 0.1}), Evaluated(10, {"eval_loss": 1.0})]
    history = history_of("eval_loss", made_at)
    assert history.points == ((10, 1.0),)


def test_true_best_of_nothing_is_none() -> None:
    assert true_best([], False) is None
    assert true_best([(1, NAN)], True) is None
    assert true_best([(1, NAN), (2, -math.inf), (3, 1.0)], True) == (3, 1.0)


def test_directions_by_name() -> None:
    lower = (
        "eval_loss",
        "loss",
        "eval_perplexity",
        "wer",
        "eval_cer",
        "eval_news_rmse",
        "eval_mae",
    )
    greater = ("accuracy", "eval_f1", "eval_rougeL", "eval_exact_match", "eval_val_auc")
    unknown = ("eval_score", "eval_neg_loss", "reward", "eval_lossy_thing")
    assert [known_direction(name) for name in lower] == [False] * len(lower)
    assert [known_direction(name) for name in greater] == [True] * len(greater)
    assert [known_direction(name) for name in unknown] == [None] * len(unknown)


def test_the_direction_is_the_declared_one_then_the_recorded_then_the_name() -> None:
    history = History("eval_score", tuple(zip(STEPS, LOSSES)))
    assert direction_of(Wish(greater=True), history, Recorded(0.5)) is True
    assert direction_of(Wish(), history, Recorded(0.5)) is False
    assert direction_of(Wish(), history, Recorded(1.0)) is True
    assert direction_of(Wish(), history, Recorded()) is None
    named: Dict[str, bool] = {"eval_loss": False, "eval_accuracy": True}
    for name, greater in named.items():
        points: List[Tuple[int, float]] = list(zip(STEPS, LOSSES))
        assert direction_of(Wish(), History(name, tuple(points)), Recorded()) is greater
