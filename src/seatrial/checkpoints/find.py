"""Finding checkpoints below folders that anybody may have filled.

There are limits on depth and number, and a link that leads out is not followed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

MAX_DEPTH = 4
MAX_ENTRIES = 20_000
MAX_CHECKPOINTS = 500

INCOMPLETE = "checkpoint-is-incomplete.txt"
INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
ADAPTER_CONFIG = "adapter_config.json"
_ADAPTERS = ("adapter_model.safetensors", "adapter_model.bin")
# What lies beside weights and holds none.
_BESIDE = re.compile(
    r"^(optimizer|scheduler|scaler|rng_state.*|training_args|random_states.*|sampler.*|"
    r"custom_checkpoint.*|.*optim_states)\.(pt|pth|bin|pkl)$"
)
_WEIGHTS = (".pt", ".pth", ".ckpt", ".bin", ".safetensors")
_STEP = re.compile(r"^(?:tmp-)?checkpoint-(\d{1,18})$")
_SHARD = re.compile(r"^(?P<stem>.+)-\d{5}-of-\d{5}\.(?P<ext>safetensors|bin)$")


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint as it lies on disk.

    Attributes:
        path: its folder, or the file of kind ``pt``.
        kind: ``hf``, ``peft``, ``pt`` (a single file), ``dcp``, or ``none`` for a folder of a
            checkpoint that has no weights.
        weights: files with weights, sorted.
        index: the index of a sharded checkpoint.
        step: in the folder's name.
        incomplete: why it is marked as unfinished; empty for a finished one.
        adapter: name of an adapter that lies in a folder of its own.
        bytes, mtime: of the weights together, and of the newest of them (seconds since the epoch).
        outside: links that lead out of the folder, which were not followed.
    """

    path: str
    kind: str
    weights: tuple[str, ...] = ()
    index: str | None = None
    step: int | None = None
    incomplete: str = ""
    adapter: str = ""
    bytes: int = 0
    mtime: float = 0.0
    outside: tuple[str, ...] = ()

    @property
    def folder(self) -> str:
        """Where its configuration lies."""
        return os.path.dirname(self.path) if self.kind == "pt" else self.path

    @property
    def home(self) -> str:
        """Where its weights and their configuration lie; an adapter may have its own folder."""
        return os.path.dirname(self.weights[0]) if self.weights else self.folder


@dataclass
class Found:
    """The answer of a search: checkpoints by path, and what was not looked at, with why."""

    checkpoints: dict[str, Checkpoint] = field(default_factory=dict)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    entries: int = 0


def is_beside(name: str) -> bool:
    """Whether a file of this name lies beside weights and holds none (optimizer, arguments)."""
    return _BESIDE.match(name) is not None


def is_weight_file(name: str) -> bool:
    """Whether a file of this name may hold weights, and not what lies beside them."""
    return name.endswith(_WEIGHTS) and not is_beside(name)


def step_of(name: str) -> int | None:
    """The step in a folder name like ``checkpoint-30``."""
    found = _STEP.match(os.path.basename(name.rstrip("/")))
    return int(found.group(1)) if found else None


def find_checkpoints(
    trees: Iterable[str],
    folders: Iterable[str] = (),
    files: Iterable[str] = (),
    *,
    stop: Callable[[], bool] = lambda: False,
) -> Found:
    """Every checkpoint in what is named.

    Args:
        trees: folders searched with all that lies below them, four levels deep.
        folders: folders looked at alone.
        files: single weight files; they count whatever folder they are in.
        stop: asked before each folder.
    """
    found = Found()
    for tree in dict.fromkeys(os.path.abspath(tree) for tree in trees):
        _walk(tree, tree, 0, found, stop)
    for folder in dict.fromkeys(os.path.abspath(folder) for folder in folders):
        if folder not in found.checkpoints:
            _look(folder, folder, found, with_files=False)
    known = {path for item in found.checkpoints.values() for path in item.weights}
    for file in dict.fromkeys(os.path.abspath(file) for file in files):
        if file not in known and file not in found.checkpoints and os.path.isfile(file):
            _add(found, _of_files("pt", file, [file], None, found))
    return found


def _walk(folder: str, tree: str, depth: int, found: Found, stop: Callable[[], bool]) -> None:
    below = _look(folder, tree, found, with_files=True)
    for name in below:
        path = os.path.join(folder, name)
        if found.entries > MAX_ENTRIES or len(found.checkpoints) >= MAX_CHECKPOINTS:
            found.skipped.append((path, "too many entries below this folder"))
            return
        if stop():
            found.skipped.append((path, "no time was left, or a stop was asked for"))
            return
        if depth >= MAX_DEPTH:
            found.skipped.append((path, f"deeper than {MAX_DEPTH} levels"))
            return
        _walk(path, tree, depth + 1, found, stop)


def _add(found: Found, checkpoint: Checkpoint) -> None:
    if len(found.checkpoints) < MAX_CHECKPOINTS:
        found.checkpoints.setdefault(checkpoint.path, checkpoint)


def _entries(folder: str, tree: str, found: Found) -> tuple[list[str], list[str], list[str]]:
    """Names of files, of folders, and of links that lead out of the tree."""
    files, folders, outside = [], [], []
    try:
        with os.scandir(folder) as listing:
            for entry in listing:
                found.entries += 1
                if found.entries > MAX_ENTRIES:
                    found.skipped.append((folder, f"more than {MAX_ENTRIES} entries"))
                    break
                if entry.is_symlink() and not _stays_inside(entry.path, tree):
                    outside.append(entry.name)
                elif entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
                elif entry.is_file():
                    files.append(entry.name)
    except OSError as error:
        found.skipped.append((folder, f"it cannot be listed: {error.strerror}"))
    return sorted(files), sorted(folders), sorted(outside)


def _stays_inside(path: str, tree: str) -> bool:
    real, root = os.path.realpath(path), os.path.realpath(tree)
    return real.startswith(root + os.sep) and os.path.isfile(real)


def _look(folder: str, tree: str, found: Found, *, with_files: bool) -> list[str]:
    """Add the checkpoint that a folder is; the folders below it that belong to no checkpoint."""
    files, below, outside = _entries(folder, tree, found)
    made = _classify(folder, files, below, found)
    if made is not None:
        links = tuple(name for name in outside if name.endswith((".safetensors", ".bin", ".json")))
        _add(found, Checkpoint(**{**vars(made), "outside": links}))
        if step_of(folder) is not None or made.kind == "dcp":
            return [name for name in below if step_of(name) is not None]
        # An output folder that holds a model itself: what lies beside the model is looked at, too.
        if with_files:
            for name in _plain(files):
                path = os.path.join(folder, name)
                if path not in made.weights:
                    _add(found, _of_files("pt", path, [path], None, found))
        return [name for name in below if os.path.join(folder, name) not in _inside(made)]
    if with_files:
        for name in _plain(files):
            path = os.path.join(folder, name)
            _add(found, _of_files("pt", path, [path], None, found))
    return below


def _inside(made: Checkpoint) -> set[str]:
    """Folders that a checkpoint's own weights lie in."""
    return {os.path.dirname(path) for path in made.weights}


def _plain(files: Iterable[str]) -> Iterator[str]:
    for name in files:
        if is_weight_file(name):
            yield name


def _classify(folder: str, files: list[str], below: list[str], found: Found) -> Checkpoint | None:
    at = os.path.join
    incomplete = _incomplete(folder, files)
    adapters = [name for name in _ADAPTERS if name in files]
    if adapters or ADAPTER_CONFIG in files:
        paths = [at(folder, name) for name in adapters[:1]]
        return _of_files("peft", folder, paths, None, found, incomplete)
    weights, index = _model_files(files)
    if weights or index is not None:
        paths = [at(folder, name) for name in weights]
        return _of_files(
            "hf", folder, paths, at(folder, index) if index else None, found, incomplete
        )
    if ".metadata" in files or any(name.endswith(".distcp") for name in files):
        shards = [at(folder, name) for name in files if name.endswith(".distcp")]
        return _of_files("dcp", folder, shards, None, found, incomplete)
    if step_of(folder) is None:
        return None
    return _nested(folder, below, found, incomplete) or _of_files(
        "none", folder, [], None, found, incomplete
    )


def _nested(folder: str, below: list[str], found: Found, incomplete: str) -> Checkpoint | None:
    """A checkpoint whose weights lie one level down: a named adapter, or sharded state."""
    for name in below:
        inner = os.path.join(folder, name)
        files, _folders, _outside = _entries(inner, folder, found)
        adapters = [item for item in _ADAPTERS if item in files]
        if adapters:
            paths = [os.path.join(inner, adapters[0])]
            made = _of_files("peft", folder, paths, None, found, incomplete)
            return Checkpoint(**{**vars(made), "adapter": name})
        shards = [os.path.join(inner, item) for item in files if item.endswith(".distcp")]
        if shards and name.startswith("pytorch_model_fsdp"):
            return _of_files("dcp", folder, shards, None, found, incomplete)
    return None


def _incomplete(folder: str, files: list[str]) -> str:
    if INCOMPLETE in files:
        return f"it holds {INCOMPLETE}"
    if os.path.basename(folder).startswith("tmp-checkpoint-"):
        return "its name begins with tmp-"
    return ""


def _model_files(files: list[str]) -> tuple[list[str], str | None]:
    index = next((name for name in INDEXES if name in files), None)
    if index is not None:
        stem, _, ext = index.removesuffix(".index.json").partition(".")
        shards = [
            name
            for name in files
            for match in [_SHARD.match(name)]
            if match is not None and match["ext"] == ext and match["stem"] == stem
        ]
        return shards, index
    for name in ("model.safetensors", "pytorch_model.bin"):
        if name in files:
            return [name], None
    # Without a configuration beside them they are single files that a script wrote.
    tensors = [name for name in files if name.endswith(".safetensors")]
    return (tensors if "config.json" in files else []), None


def _of_files(
    kind: str,
    path: str,
    weights: list[str],
    index: str | None,
    found: Found,
    incomplete: str = "",
) -> Checkpoint:
    size, newest = 0, 0.0
    for file in weights:
        try:
            stat = os.stat(file)
        except OSError as error:
            found.skipped.append((file, f"it cannot be looked at: {error.strerror}"))
            continue
        size += stat.st_size
        newest = max(newest, stat.st_mtime)
    if not newest:
        newest = _mtime(path)
    return Checkpoint(
        path=path,
        kind=kind,
        weights=tuple(weights),
        index=index,
        step=step_of(path) if kind != "pt" else None,
        incomplete=incomplete,
        bytes=size,
        mtime=newest,
    )


def _mtime(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0
