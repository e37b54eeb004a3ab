"""Commands as typed: scripts, interpreters, flags that keep the probe out."""

from __future__ import annotations

from seatrial.core.command_line import (
    has_isolated_flag,
    is_python,
    isolating_flag,
    run_name,
    script_of,
)

SCRIPTS = [
    ("python x.py a b", "x.py"),
    ("python3.12 -u x.py", "x.py"),
    ("/opt/v/bin/python -X dev -W error -OO x.py -c", "x.py"),
    ("python -Wignore -Xdev x.py", "x.py"),
    ("python -bW ignore x.py", "x.py"),
    ("python --check-hash-based-pycs never x.py", "x.py"),
    ("pypy3 x.py", "x.py"),
    ("python -m pkg x.py", None),
    ("python -um pkg x.py", None),
    ("python -c pass x.py", None),
    ("python - x.py", None),
    ("python", None),
    ("python -m torch.distributed.run --nproc-per-node 2 x.py", "x.py"),
    ("python -m torch.distributed.run -m pkg", None),
    ("python -m accelerate.commands.launch --cpu x.py", "x.py"),
    ("bash x.sh 1", "x.sh"),
    ("bash -e -o pipefail x.sh", "x.sh"),
    ("bash -- x.sh", "x.sh"),
    ("bash -lc x.sh", None),
    ("sh -s x.sh", None),
    ("torchrun --standalone --nproc_per_node 2 x.py --epochs 3", "x.py"),
    ("torchrun --nnodes=1 --nproc_per_node=2 x.py", "x.py"),
    ("torchrun --nproc_per_node 2 -m pkg.train", None),
    ("torchrun --no-python ./prog", None),
    ("accelerate launch x.py", "x.py"),
    ("accelerate launch --multi_gpu --mixed_precision bf16 x.py --use_fsdp", "x.py"),
    ("accelerate launch --module pkg.train", None),
    ("accelerate env", None),
    ("accelerate-launch --cpu x.py", "x.py"),
    ("uv run x.py", "x.py"),
    ("uv run -- python x.py", "x.py"),
    ("uv run python x.py", "x.py"),
    ("uv run --with torch x.py", None),
    ("uv pip list", None),
    ("env A=1 B=2 python x.py", "x.py"),
    ("env -i python x.py", None),
    ("make train", None),
    ("deepspeed x.py", None),
]


def test_the_script_of_a_command_is_found_or_left_open() -> None:
    for text, expected in SCRIPTS:
        assert script_of(text.split()) == expected, text
    assert script_of([]) is None
    assert script_of(["python", "a b'c\n\u00e9.py"]) == "a b'c\n\u00e9.py"


def test_interpreters_are_known_by_their_name() -> None:
    for word in (
        "python",
        "python3",
        "/a b/python3.13t",
        "pypy3",
        "C:\\x\\python.exe",
    ):
        assert is_python(word), word
    for word in ("pythonista", "ipython", "python-config", "torchrun", ""):
        assert not is_python(word), word


ISOLATED = [
    ("python -I x.py", "-I"),
    ("python -uE x.py", "-E"),
    ("python -S -m pkg", "-S"),
    ("python -Im pkg", "-I"),
    ("uv run python -I x.py", "-I"),
    ("python -s x.py -I", None),
    ("python -m pkg -I", None),
    ("python -W Ignore x.py", None),
    ("python -X Import x.py", None),
    ("python -c I -E", None),
    ("python --Isolated x.py", None),
    ("bash -E x.sh", None),
    ("torchrun -I x.py", None),
]


def test_flags_that_keep_the_probe_out_are_found() -> None:
    for text, expected in ISOLATED:
        assert isolating_flag(text.split()) == expected, text
        assert has_isolated_flag(text.split()) == (expected is not None)


def test_runs_are_named_after_what_they_run() -> None:
    for text, expected in (
        ("python a/train.py", "train"),
        ("bash run.sh", "run"),
        ("make trial", "make"),
        ("/x/torchrun -m p", "torchrun"),
        ("python package/", "package"),
    ):
        assert run_name(text.split()) == expected, text
    assert run_name([]) == "run"
