"""The environment of the runner: passed through for an ad-hoc run, an allowlist for a trial."""

from __future__ import annotations

from typing import Mapping, Sequence

from seatrial.core.errors import UsageError
from seatrial.core.trial import Trial

# What a program needs to start, find its libraries, its GPUs and its caches. Tokens are not here:
# a trial names them in [runner] secrets.
_ALLOWED = frozenset(
    """
    PATH HOME USER LOGNAME SHELL TERM LANG LANGUAGE TZ TMPDIR TEMP TMP PWD
    VIRTUAL_ENV CONDA_PREFIX CONDA_DEFAULT_ENV PYTHONPATH PYTHONHOME LD_LIBRARY_PATH LD_PRELOAD
    DYLD_LIBRARY_PATH XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME XDG_RUNTIME_DIR
    HF_HOME HF_HUB_CACHE HF_DATASETS_CACHE HF_ENDPOINT HF_HUB_OFFLINE HF_DATASETS_OFFLINE
    TRANSFORMERS_OFFLINE TRANSFORMERS_CACHE TORCH_HOME TORCH_EXTENSIONS_DIR
    TORCHINDUCTOR_CACHE_DIR TRITON_CACHE_DIR CC CXX
    SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE
    PIP_INDEX_URL UV_INDEX_URL UV_CACHE_DIR UV_PYTHON UV_PROJECT_ENVIRONMENT
    """.split()  # noqa: SIM905 - thirty names read better as text than as a list
)
_ALLOWED_PREFIXES = (
    "LC_",
    "CUDA_",
    "NVIDIA_",
    "HIP_",
    "ROCR_",
    "HSA_",
    "NCCL_",
    "GLOO_",
    "OPENBLAS_",
)
# Proxies may carry user:password in their URL; they are needed all the same and are redacted by
# shape wherever they would be written.
_ALLOWED_ANY_CASE = frozenset({"http_proxy", "https_proxy", "no_proxy", "all_proxy"})

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")


def is_allowed(name: str) -> bool:
    """Whether a trial's runner sees this variable without naming it."""
    return (
        name in _ALLOWED or name.startswith(_ALLOWED_PREFIXES) or name.lower() in _ALLOWED_ANY_CASE
    )


def runner_environment(base: Mapping[str, str], trial: Trial, threads: int) -> dict[str, str]:
    """The variables that the runner sees, before the probe's bootstrap is added.

    Args:
        base: the environment of the person who typed the command.
        trial: an ad-hoc trial passes ``base`` through unchanged.
        threads: thread count that a trial fixes unless its ``env`` says otherwise.

    Raises:
        UsageError: a variable named in ``[runner] secrets`` is not set.
    """
    if trial.ad_hoc:
        return dict(base)
    environment = {name: value for name, value in base.items() if is_allowed(name)}
    for name in THREAD_VARIABLES:
        environment[name] = str(threads)
    environment["TOKENIZERS_PARALLELISM"] = "false"
    environment["PYTHONUNBUFFERED"] = "1"
    if trial.seed is not None:
        environment["PYTHONHASHSEED"] = str(trial.seed % 2**32)
    environment.update(trial.runner.env)
    environment.update(_secrets(base, trial.runner.secrets, trial.file))
    return environment


def _secrets(base: Mapping[str, str], names: Sequence[str], file: str | None) -> dict[str, str]:
    missing = [name for name in names if name not in base]
    if missing:
        raise UsageError(
            f"{file or 'the trial'} names the secret {missing[0]} under [runner] secrets, "
            "and it is not set in this environment",
            remedy=f"export {missing[0]}=..., or remove it from secrets",
        )
    return {name: base[name] for name in names}
