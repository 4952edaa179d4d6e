"""The golden vectors that every engine, also outside Python, is held to."""

import sys
from pathlib import Path

import numpy as np
import pytest

from tflm_train import _native

sys.path.insert(0, str(Path(__file__).parent))
import generate_golden  # noqa: E402
from engine_models import simd_levels  # noqa: E402


def test_the_golden_file_is_what_the_reference_says():
    assert generate_golden.GOLDEN.read_bytes() == generate_golden.encode(generate_golden.records())


@pytest.mark.parametrize("level", simd_levels())
def test_the_engine_gives_the_golden_outputs(level):
    count = 0
    for raw, blocks, samples, expected in generate_golden.decode(
        generate_golden.GOLDEN.read_bytes()
    ):
        engine = _native.Engine(raw, simd=level)
        inputs = [
            np.frombuffer(block, np.int8).reshape(samples, *spec["shape"][1:])
            for block, spec in zip(blocks, engine.inputs, strict=True)
        ]
        got = engine.run(inputs if len(inputs) > 1 else inputs[0])
        assert got.tobytes() == expected, engine.ops[0]["name"]
        count += 1
    assert count >= 40
