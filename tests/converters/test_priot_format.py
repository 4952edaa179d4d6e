"""Option bytes and score storages of the masked operators: round trips and refusals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from converters.errors import ModelFormatError
from converters.priot_format import MaskedOptions, choose_storage, pack_scores, unpack_scores
from converters.priot_net import PriotLayer

OPTIONS = st.builds(
    MaskedOptions,
    shift=st.integers(0, 31),
    rounding=st.integers(0, 4),
    threshold=st.integers(-128, 127),
    storage=st.integers(0, 2),
    activation=st.integers(0, 1),
    stride_height=st.integers(0, 9),
    stride_width=st.integers(0, 9),
    pad_top=st.integers(0, 9),
    pad_left=st.integers(0, 9),
)


@given(OPTIONS)
def test_options_survive_a_round_trip_of_40_bytes(options):
    raw = options.pack()
    assert len(raw) == 40
    assert MaskedOptions.unpack(raw) == options


def test_options_have_the_documented_layout():
    raw = MaskedOptions(9, 4, -64, 1, 1, 2, 3, 5, 6).pack()
    assert np.frombuffer(raw, "<i4").tolist() == [1, 9, 4, -64, 1, 1, 2, 3, 5, 6]


@given(st.binary(max_size=60))
def test_any_other_bytes_are_refused_or_read_as_options(raw):
    try:
        options = MaskedOptions.unpack(raw)
    except ModelFormatError:
        return
    assert options.pack() == raw


@given(
    rows=st.integers(1, 6),
    row_size=st.integers(1, 40),
    share=st.floats(0, 1),
    seed=st.integers(0, 99),
)
def test_scores_survive_every_storage(rows, row_size, share, seed):
    rng = np.random.default_rng(seed)
    scored = rng.random(rows * row_size) < share
    scored[rng.integers(len(scored))] = True
    layer = PriotLayer("dense", {"inputs": row_size, "outputs": rows}, "d")
    layer.scored = scored
    layer.scores = np.where(scored, rng.integers(-128, 128, len(scored)), 0).astype(np.int8)
    storage, packed, places = pack_scores(layer)
    scores, flags = unpack_scores(storage, packed, places, rows, row_size, "d")
    np.testing.assert_array_equal(scores, layer.scores)
    if flags is not None:
        np.testing.assert_array_equal(flags, scored)
    size = len(packed) + (0 if places is None else places.nbytes)
    assert size == choose_storage(scored, rows, row_size)[1]


def test_a_bitmask_explains_the_papers_memory_figures():
    edges = 52092
    scored = np.zeros(edges, bool)
    scored[: round(edges * 0.1)] = True
    storage, size = choose_storage(scored, 1, edges)
    assert storage == 1
    assert abs((edges - size) - (138044 - 97672)) <= 4


def test_damaged_scores_are_refused():
    scores = np.zeros(2, np.int8)
    for storage, places in (
        (0, None),
        (1, None),
        (1, np.array([7], np.uint8)),
        (2, np.array([1, 1, 0, 9], np.uint16)),
        (2, np.array([2, 1, 0, 1], np.uint16)),
    ):
        with pytest.raises(ModelFormatError):
            unpack_scores(storage, scores, places, 2, 4, "d")
