"""The notebook runs from top to bottom and shows what it says."""

import re
import shutil
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_the_notebook_runs_and_learns(tmp_path, digits):
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    shutil.copytree(EXAMPLES / "models", tmp_path / "models")
    notebook = nbformat.read(EXAMPLES / "finetune_in_a_notebook.ipynb", as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    texts = "".join(
        output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", [])
    )
    before, after = re.search(r"before ([\d.]+), after ([\d.]+)", texts).groups()
    assert float(after) > float(before) + 0.08
    assert "weights equal: True" in texts
    assert (tmp_path / "tuned.tflite").exists()
    pictures = [
        output
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if "image/png" in output.get("data", {})
    ]
    assert len(pictures) >= 2
