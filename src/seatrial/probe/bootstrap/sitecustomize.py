"""First code of ours in every interpreter of a run: found through PYTHONPATH.

Does nothing outside a run. Inside one it says that it is here (``run/attach/<pid>.json``), makes
``seatrial`` importable without adding anything to ``sys.path``, waits for torch, and then hands
over to the user's own ``sitecustomize``. It never raises anything of its own, and it must be
valid on any Python, because it is also loaded by interpreters that are too old for the probe.
"""
# ruff: noqa: UP031, UP036, RUF005 - this one file must be valid on Python 2.7 too
# mypy: disable-error-code="no-untyped-def,no-untyped-call,union-attr,arg-type,assignment"

import os
import sys


def _attach(record):
    """Load the package from the folder that this file lies in and start the probe."""
    import _frozen_importlib
    import _frozen_importlib_external

    here = os.path.dirname(os.path.abspath(__file__))
    package = os.path.dirname(os.path.dirname(here))
    if "seatrial" not in sys.modules:
        spec = _frozen_importlib_external.spec_from_file_location(
            "seatrial",
            os.path.join(package, "__init__.py"),
            submodule_search_locations=[package],
        )
        module = _frozen_importlib.module_from_spec(spec)
        sys.modules["seatrial"] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules["seatrial"]
            raise
    from seatrial.probe import install

    install.start(record)


def _say_too_old(record):
    """Tell the record why nothing will be seen of this interpreter."""
    folder = os.path.join(record, "run", "attach")
    if not os.path.isdir(folder):
        return
    path = os.path.join(folder, "%d.json" % os.getpid())
    with open(path + ".new", "w") as file:
        file.write(
            '{"pid": %d, "ppid": %d, "python": "%d.%d.%d", "torch": null, "role": "interpreter", '
            '"error": "Python %d.%d is older than 3.9, which the probe needs"}'
            % ((os.getpid(), os.getppid()) + tuple(sys.version_info[:3]) + sys.version_info[:2])
        )
    os.rename(path + ".new", path)


def _start():
    record = os.environ.get("SEATRIAL_RECORD")
    if not record:
        return
    try:
        (_attach if sys.version_info >= (3, 9) else _say_too_old)(record)
    except Exception:  # noqa: BLE001, S110 - whatever is wrong with us, the user's run goes on
        pass


def _chain():
    """Run the ``sitecustomize`` that this one hides, if there is one.

    What it raises goes on to ``site``, which treats it as it would without us.
    """
    here = os.path.dirname(os.path.abspath(__file__))
    others = [p for p in sys.path if os.path.abspath(p or os.curdir) != here]
    if sys.version_info < (3, 5):
        imp = __import__("imp")
        try:
            found = imp.find_module("sitecustomize", others)
        except ImportError:
            return
        imp.load_module("sitecustomize", *found)
        return
    import _frozen_importlib
    import _frozen_importlib_external

    spec = _frozen_importlib_external.PathFinder.find_spec("sitecustomize", others)
    if spec is None or spec.loader is None:
        return
    module = _frozen_importlib.module_from_spec(spec)
    ours = sys.modules.get("sitecustomize")
    sys.modules["sitecustomize"] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules["sitecustomize"] = ours
        raise


_start()
_chain()
