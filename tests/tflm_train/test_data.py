import csv
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from converters.errors import DataError
from tflm_train.data import Dataset, load_dataset, rotate, split


def test_npz_parts_are_told_apart(tmp_path):
    path = tmp_path / "d.npz"
    np.savez(path, x_train=np.zeros((3, 2)), y_train=[0, 1, 1], x_test=np.ones((1, 2)), y_test=[1])
    assert len(load_dataset(path)) == 3
    assert load_dataset(path, part="test").y.tolist() == [1]


def test_one_hot_labels_become_classes(tmp_path):
    np.savez(tmp_path / "d.npz", x=np.zeros((2, 2)), y=np.array([[0, 1], [1, 0]]))
    assert load_dataset(tmp_path / "d.npz").y.tolist() == [1, 0]


def test_packed_jpeg_images_are_decoded(tmp_path):
    from PIL import Image

    files = []
    for value in (0, 255):
        buffer = io.BytesIO()
        Image.fromarray(np.full((8, 8, 3), value, np.uint8)).save(buffer, "JPEG")
        files.append(buffer.getvalue())
    np.savez(
        tmp_path / "d.npz",
        train_jpeg=np.frombuffer(b"".join(files), np.uint8),
        train_offset=np.cumsum([0] + [len(f) for f in files]),
        train_label=[4, 2],
        classes=["a", "b", "c", "d", "e"],
    )
    data = load_dataset(tmp_path / "d.npz")
    assert data.x.shape == (2, 8, 8, 3)
    assert (data.x[0].max(), data.x[1].min()) == (0, 255)
    assert data.y.tolist() == [4, 2]
    assert "JPEG" in data.name


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.floats(-1e3, 1e3, width=32), st.floats(-1e3, 1e3, width=32), st.integers(0, 4)
        ),
        min_size=1,
        max_size=20,
    )
)
def test_csv_values_come_back(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("csv") / "d.csv"
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["a", "label", "b"])
        writer.writerows([repr(a), label, repr(b)] for a, b, label in rows)
    data = load_dataset(path)
    assert np.array_equal(data.x, np.array([(a, b) for a, b, _ in rows], np.float32))
    assert data.y.tolist() == [label for *_, label in rows]


def test_text_labels_become_classes_in_sorted_order(tmp_path):
    (tmp_path / "d.csv").write_text("a,what\n1,zebra\n2,ape\n")
    data = load_dataset(tmp_path / "d.csv")
    assert data.classes == ("ape", "zebra")
    assert data.y.tolist() == [1, 0]


def test_a_folder_of_images_has_a_class_per_sub_folder(tmp_path):
    from PIL import Image

    for name, size in (("cat", (8, 8)), ("dog", (10, 6))):
        (tmp_path / name).mkdir()
        Image.new("RGB", size, (10, 20, 30)).save(tmp_path / name / "1.png")
    with pytest.raises(DataError, match="one size .*image_size"):
        load_dataset(tmp_path)
    data = load_dataset(tmp_path, image_size=(4, 5), grayscale=False)
    assert data.x.shape == (2, 4, 5, 3)
    assert data.classes == ("cat", "dog")
    assert load_dataset(tmp_path, image_size=(4, 5), grayscale=True).x.shape == (2, 4, 5, 1)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.npz", b"no zip", "plain arrays|whole .npz"),
        ("a.npz", b"PK\x03\x04" + bytes(50), "whole .npz|plain arrays"),
        ("a.csv", b"a,label\n", "header line and samples"),
        ("a.csv", b"a,label\n1,2,3\n", "2 columns .* 3 on line 2"),
        ("a.csv", b"a,label\nx,1\n", "numbers on line 2"),
        ("a.txt", b"hello", "Expected a .npz, .csv or folder"),
    ],
)
def test_unreadable_files_are_refused_by_name(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        load_dataset(tmp_path / name)


def test_arrays_of_python_objects_are_never_unpickled(tmp_path):
    np.savez(tmp_path / "d.npz", x=np.array([{"a": 1}], dtype=object))
    with pytest.raises(DataError, match="plain arrays"):
        load_dataset(tmp_path / "d.npz")


def test_missing_names_and_parts_are_refused(tmp_path):
    with pytest.raises(DataError, match="digits, mnist"):
        load_dataset("nothing")
    with pytest.raises(ValueError, match="'validation'"):
        load_dataset("digits", part="validation")
    np.savez(tmp_path / "d.npz", z=np.zeros(3))
    with pytest.raises(DataError, match="`x` or `x_train`.*got z"):
        load_dataset(tmp_path / "d.npz")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="sub-folder per class"):
        load_dataset(tmp_path / "empty")


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 50), st.floats(0.05, 0.95), st.integers(0, 2**32 - 1))
def test_a_split_is_disjoint_whole_and_repeatable(count, fraction, seed):
    data = Dataset(np.arange(count)[:, None], np.arange(count, dtype=np.int32))
    rest, held = split(data, fraction, seed=seed)
    assert sorted([*rest.y, *held.y]) == list(range(count))
    assert len(rest) >= 1
    assert len(held) >= 1
    assert np.array_equal(split(data, fraction, seed=seed)[1].y, held.y)


def test_the_digits_are_mnist_in_two_disjoint_parts(digits):
    train, test = digits
    assert (len(train), len(test)) == (4000, 1000)
    assert np.bincount(test.y).tolist() == [100] * 10
    pixels = {x.tobytes() for x in train.x}
    assert not any(x.tobytes() in pixels for x in test.x)


def test_rotating_by_right_angles_is_exact():
    x = np.arange(9, dtype=np.uint8).reshape(1, 3, 3)
    assert np.array_equal(rotate(x, 90)[0], np.rot90(x[0]))
    assert np.array_equal(rotate(x, 0), x)


def test_rotating_wants_bytes():
    with pytest.raises(ValueError, match="uint8"):
        rotate(np.zeros((1, 3, 3)), 30)
