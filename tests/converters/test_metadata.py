"""Labels, normalisation and description: written for other tools, kept by ours."""

import io
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from converters import convert, metadata
from converters.flatbuffer import read_model, write_model

_OPTIONS = {
    "labels": ["cat", "dog", "Öl"],
    "normalization": {"scale": 1 / 128, "offset": -1.0},
    "description": "three things",
}


@pytest.fixture(scope="module")
def labelled(small_cnn):
    pytest.importorskip("tensorflow_lite_support.metadata", reason="tflite-support is absent")
    return convert(small_cnn[0], calibration=small_cnn[1], **_OPTIONS)


def test_the_standard_reader_finds_what_was_written(labelled):
    from converters.quiet import quiet_native_output

    with quiet_native_output():
        from tensorflow_lite_support.metadata.python.metadata import MetadataDisplayer
    displayer = MetadataDisplayer.with_model_buffer(labelled)
    text = displayer.get_metadata_json()
    assert '"description": "three things"' in text
    assert displayer.get_packed_associated_file_list() == ["labels.txt"]
    assert displayer.get_associated_file_buffer("labels.txt").decode() == "cat\ndog\nÖl\n"


def test_describe_gives_it_back(labelled):
    found = metadata.describe(labelled)
    assert found["labels"] == _OPTIONS["labels"]
    assert found["description"] == "three things"
    assert found["normalization"]["scale"] == pytest.approx(1 / 128)
    assert found["normalization"]["offset"] == pytest.approx(-1.0)


def test_rewriting_with_the_appendix_keeps_every_byte(labelled):
    assert write_model(read_model(labelled)) + metadata.appendix(labelled) == labelled


def test_labels_survive_a_model_that_changes_its_length(labelled):
    model = read_model(labelled)
    model.description = b"x" * 1000
    rewritten = write_model(model) + metadata.appendix(labelled)
    assert metadata.describe(rewritten)["labels"] == _OPTIONS["labels"]
    assert zipfile.ZipFile(io.BytesIO(rewritten)).testzip() is None


def test_a_model_without_label_file_has_no_appendix(small_int8):
    assert metadata.appendix(small_int8.raw) == b""
    assert "labels" not in metadata.describe(small_int8.raw)


def test_the_training_entry_stays_beside_the_standard_one(labelled, small_int8):
    from converters.training_info import read_training_info

    info = read_training_info(read_model(labelled))
    assert info.trainable[0].name == small_int8.info.trainable[0].name
    assert info.labels == tuple(_OPTIONS["labels"])


def test_without_tflite_support_conversion_says_what_is_left_out(small_cnn, monkeypatch, caplog):
    import importlib

    real = importlib.import_module

    def absent(name, *args):
        if name.startswith("tensorflow_lite_support"):
            raise ModuleNotFoundError(name)
        return real(name, *args)

    monkeypatch.setattr(metadata.importlib, "import_module", absent)
    raw = convert(small_cnn[0], calibration=small_cnn[1], **_OPTIONS)
    assert "labels and normalization and description left out" in caplog.text
    found = metadata.describe(raw)
    assert found == {"description": "three things"}


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.sampled_from(["a", "b.txt", "c"]), st.binary(max_size=200)), st.binary())
def test_files_behind_any_bytes_are_found_or_absent(files, prefix):
    appended = prefix + metadata._zip(files)
    found = metadata.associated_files(appended)
    assert found == files or (not files and found == {})


def test_calibration_noise_still_carries_labels(small_cnn):
    raw = convert(small_cnn[0], labels=["a", "b", "c"])
    assert np.frombuffer(raw[4:8], "S4")[0] == b"TFL3"
