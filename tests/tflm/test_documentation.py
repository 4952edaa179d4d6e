"""The walk-through of docs/tflm.md compiles, runs and learns; the drop-ins build."""

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from test_train_graph import SIZE
from tflm_nets import Twin, priot_model
from tflm_programs import build, c_array, fields, need, run

from converters.train_graph import train_graph
from tflm_train._firmware.targets import micro_ops_root

ROOT = Path(__file__).parents[2]
STEPS = 20


def walk_through():
    text = (ROOT / "docs/tflm.md").read_text()
    return re.findall(r"```cpp\n(.*?)```", text, re.DOTALL)[0]


MAIN = """
#include "console.h"
int position = 0;
bool NextSample(int8_t* x, int32_t* label) {
  if (position == %d) return false;
  for (int i = 0; i < %d; ++i) x[i] = kSamples[position][i];
  *label = kLabels[position];
  return true;
}
void Show(int32_t guess) {
  const int64_t line[2] = {position++, guess};
  PutFields("guess", line, 2);
}
int main() { return TrainAndInfer(); }
"""


@pytest.mark.parametrize("machine", ["host", "cortex-m55", "tflm-host"])
def test_the_walk_through_is_thirty_lines_that_train(machine, tmp_path_factory):
    machine = need(machine)
    source = walk_through()
    begin = source.index("int TrainAndInfer")
    assert len(source.splitlines()) <= 36
    assert len(source[begin:].splitlines()) <= 30
    raw = priot_model()
    rng = np.random.default_rng(8)
    x = rng.integers(0, 128, (STEPS, SIZE)).astype(np.int8)
    y = rng.integers(-1, 10, STEPS).astype(np.int32)
    folder = tmp_path_factory.mktemp("walk")
    graph = np.frombuffer(train_graph(raw), np.uint8)
    (folder / "model_data.h").write_text(
        "#include <cstdint>\n" + c_array("g_model", graph, "unsigned char", align="alignas(16) ")
    )
    data = c_array("kSamples", x, "int8_t") + c_array("kLabels", y, "int32_t")
    program_text = source + data + MAIN % (STEPS, SIZE)
    (folder / "walk_through.cc").write_text(program_text)
    program = build(machine, tmp_path_factory, [folder / "walk_through.cc"], "",
                    includes=[folder])  # fmt: skip
    code, lines = run(machine, program)
    assert code == 0, lines
    twin = Twin(raw)
    expected = [[i, twin.line(x[i], int(y[i]), 0)[2]] for i in range(STEPS)]
    assert fields(lines, "guess") == expected


def test_cmake_users_add_a_directory(tmp_path):
    if shutil.which("cmake") is None:
        pytest.skip("no cmake on PATH")
    root = micro_ops_root()
    (tmp_path / "main.cc").write_text(
        '#include "micro_ops/tflm/train_ops.h"\n'
        '#include "tensorflow/lite/micro/micro_mutable_op_resolver.h"\n'
        '#include <cstdarg>\nextern "C" void DebugLog(const char*, va_list) {}\n'
        "int main() {\n  tflite::MicroMutableOpResolver<9> resolver;\n"
        "  return tflm_train::RegisterTrainOps(resolver);\n}\n"
    )
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.24)\nproject(app LANGUAGES CXX)\n"
        "add_library(my_tflm INTERFACE)\n"
        f"target_include_directories(my_tflm INTERFACE {root}/micro_ops/tflm/testing)\n"
        "set(TFLM_TRAIN_TFLM_TARGET my_tflm)\n"
        f"add_subdirectory({root}/micro_ops micro_ops)\n"
        "add_executable(app main.cc)\ntarget_link_libraries(app PRIVATE tflm_train_tflm)\n"
    )
    for command in (["-S", ".", "-B", "b"], ["--build", "b", "--target", "app"]):
        done = subprocess.run(
            ["cmake", *command], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert subprocess.run([tmp_path / "b/app"], check=False).returncode == 0


@pytest.mark.parametrize("kernels", ["portable", "armv6m", "helium"])
def test_the_make_fragment_lists_one_form_of_the_kernels(kernels, tmp_path):
    if shutil.which("make") is None:
        pytest.skip("no make on PATH")
    fragment = micro_ops_root() / "micro_ops/tflm/tflm_train.mk"
    (tmp_path / "Makefile").write_text(
        f"include {fragment}\nall:\n\t@echo $(TFLM_TRAIN_SRCS)\n\t@echo $(TFLM_TRAIN_CXXFLAGS)\n"
    )
    done = subprocess.run(
        ["make", "-s", f"TFLM_TRAIN_KERNELS={kernels}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    sources, flags = done.stdout.splitlines()
    names = [Path(s).parent.name + "/" + Path(s).name for s in sources.split()]
    assert all(Path(s).is_file() for s in sources.split())
    assert {"tflm/ram_model.cc", "core/priot_layers.cc", "trainer/zo_step.cc"} <= set(names)
    assert ("trainer/train_kernels.cc" in names) == (kernels == "portable")
    assert (f"{kernels}/conv.cc" in names) == (kernels != "portable")
    macro = {"portable": "", "armv6m": "-DTFLM_TRAIN_ARMV6M", "helium": "-DTFLM_TRAIN_HELIUM"}
    assert macro[kernels] in flags
