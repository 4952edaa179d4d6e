"""From a `.tflite` file to the generated sources of a target."""

from converters.c_source_chain_code import ChainSource
from converters.c_source_graph import GraphSource
from converters.c_source_priot import chain_of_model
from converters.flatbuffer import load_bytes, read_model
from converters.training_info import read_training_info
from tflm_train._firmware.targets import find_target, kernel_sources, micro_ops_root

CHAIN_METHODS = ("priot", "priot-s", "niti")


def make_source(model, target, *, trains=True, batch=1, mu=None, seed=0, scheduler=None, **zo):
    """The `ChainSource` or `GraphSource` of a model; `files()` gives the texts.

    Args:
      model: bytes or path of a fully-int8 TFLite model.
      target: `rp2040`, `cortex-m55` or `generic`.
      trains: False leaves training out.
      batch: zo: most samples of a step.
      mu: priot, priot-s, niti: the largest entry of an update is about 2^mu; None: the model's. zo:
        perturbation in weight steps; None: 1.
      seed: of every random number.
      scheduler: zo: keyword arguments of `qscheduler`, or None.
      **zo: fields of `ZoOptions`.

    Raises:
      UnsupportedModelError: something the generated code cannot do.
    """
    kind, raw = find_target(target), load_bytes(model)
    parsed = read_model(raw)
    info = read_training_info(parsed)
    if info is not None and info.method in CHAIN_METHODS:
        chain = chain_of_model(raw, mu=mu, seed=seed)
        return ChainSource(chain, kernels=kind.kernels, trains=trains)
    if not trains:
        return GraphSource(parsed, kernels=kind.kernels)
    from tflm_train import Interpreter
    from tflm_train._firmware.zo_settings import zo_settings

    interpreter = Interpreter(raw)
    settings = zo_settings(
        interpreter,
        batch=batch,
        scheduler=scheduler,
        mu=1 if mu is None else mu,
        seed=seed,
        **zo,
    )
    return GraphSource(
        parsed, zo=settings, logits=interpreter.logits_spec.index, kernels=kind.kernels
    )


def export_files(source, target):
    """Everything a user's build needs: the model, the kernels it calls, a CMake target.

    Returns:
      `{path: text}`.
    """
    kind, root = find_target(target), micro_ops_root()
    files = source.files()
    listed = []
    for path in kernel_sources(kind):
        listed.append(path.relative_to(root).as_posix())
        files[listed[-1]] = path.read_text()
    for folder in sorted({path.parent for path in kernel_sources(kind)}):
        for header in sorted(folder.glob("*.h")):
            files[header.relative_to(root).as_posix()] = header.read_text()
    macro = {"armv6m": "TFLM_TRAIN_ARMV6M", "helium": "TFLM_TRAIN_HELIUM"}.get(kind.kernels)
    define = f"target_compile_definitions(tflm_train_model PUBLIC {macro})\n" if macro else ""
    sources = "\n  ".join(["model.cc", "model_data.cc", *listed])
    files["CMakeLists.txt"] = (
        "# add_subdirectory() this folder and link tflm_train_model; or add these sources to your\n"
        "# own build, with this folder as include path.\n"
        "cmake_minimum_required(VERSION 3.16)\nproject(tflm_train_model LANGUAGES CXX)\n"
        f"add_library(tflm_train_model STATIC\n  {sources})\n"
        "target_include_directories(tflm_train_model PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})\n"
        "target_compile_features(tflm_train_model PUBLIC cxx_std_17)\n"
        f"{define}"
        "target_compile_options(tflm_train_model PRIVATE -Wall -Wextra -Werror -fno-exceptions\n"
        "  -fno-rtti -fno-threadsafe-statics -ffunction-sections -fdata-sections)\n"
    )
    return files
