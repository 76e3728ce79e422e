"""Start-up of the rank program inside the worker: imports, one-time settings, warm-up."""

import gc
import json
import os
import warnings


def _import_torchao():
    """Imports torchao's MoE training package so that it defines its Triton operators.

    They are defined only where has_triton() says yes during import; on a CPU our kernels serve
    them.
    """
    import torch.utils._triton as triton_facts

    true_function = triton_facts.has_triton
    triton_facts.has_triton = lambda: True
    try:
        import torchao
        import torchao.prototype.moe_training.tensor  # noqa: F401
    finally:
        triton_facts.has_triton = true_function
    return torchao.__version__


def _check_exceptions(torch):
    """A worker linked with a C++ runtime of its own turns every torch error into nonsense."""
    try:
        torch.empty(2).view(3)
    except RuntimeError as error:
        if "invalid for input of size" in str(error):
            return
    raise ImportError(
        "exceptions of torch do not arrive: the worker holds a second copy of the C++ runtime; "
        "build with a compiler that links libstdc++ as a shared library (CXX=/usr/bin/g++)"
    )


def start(home, pack_files):
    version = prepare(home, "cpu")
    for path in pack_files:
        load_pack(path)
    return hello(version)


def prepare(home, device):
    """Imports, settings and the built-in packs; returns the torchao version."""
    os.environ.setdefault("TORCH_DISTRIBUTED_DEBUG", "OFF")
    warnings.filterwarnings("ignore")
    import torch

    from . import gpu

    gpu.settings()
    torch.set_num_threads(1)
    _check_exceptions(torch)
    torchao_version = _import_torchao()
    from . import observe, pack, world

    world.install()
    observe.install()
    torch.use_deterministic_algorithms(True)
    pack.load_built_in(os.path.join(home, "harness", "real", "packs"))
    if device == "cuda":
        gpu.prepare()
    gc.disable()
    return torchao_version


def load_pack(path):
    """A pack of the user's own. Raises whatever is wrong with it."""
    from . import coverage, pack

    json.dumps(pack.load(path, coverage.loader).describe())


def hello(torchao_version):
    """The hello message as JSON."""
    import torch

    from . import coverage, gpu, pack

    facts = {
        "torch": torch.__version__,
        "torchao": torchao_version,
        "gpu": gpu.describe(),
        "packs": [p.describe() for p in pack.PACKS.values()],
    }
    if coverage.is_on():
        coverage.begin()
        facts["coverage"] = coverage.table()
    return json.dumps(facts)


def thread_settings(device="cpu"):
    """On each rank thread, once: a single autograd thread would deadlock ranks that share it."""
    import torch

    torch.autograd.set_multithreading_enabled(False)
    if device == "cuda":
        from . import gpu

        gpu.use_own_stream()
