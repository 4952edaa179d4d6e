"""Cycles (RP2040) or instructions (Cortex-M55) of a step, from the work in it.

The prices were fitted to emulated runs of reference nets; a test holds estimates within 15 % of the
emulators. They are figures of emulators, not of boards: a board adds the misses of its flash cache.
"""

import numpy as np

from converters.c_source_chain import ChainLayer
from converters.c_source_op import Op, padding
from tflm_train._firmware.prices import PRICES
from tflm_train._firmware.targets import find_target
from tflm_train._firmware.work import chain_work, window_sums

# What an output costs besides the work of its operator; the work of the others is their outputs.
_PER_OUTPUT = {
    "Conv2DInt8": "graph_outputs",
    "LaneConv2DInt8": "graph_outputs",
    "DepthwiseConv2DInt8": "depthwise_outputs",
    "FullyConnectedInt8": "graph_outputs",
    "MaxPool2DInt8": "max_outputs",
    "AveragePool2DInt8": "average_outputs",
}
UNITS = {"rp2040": "cycles", "cortex-m55": "instructions"}


def price(work, target):
    """Cost of `{kind of work: count}`."""
    prices = PRICES[target]
    return prices["step"] + sum(prices.get(kind, 0.0) * count for kind, count in work.items())


def chain_costs(source, twin, x, y, target):
    """Costs of a chain on samples: means of `infer`, `train` (errors left) and `skipped`.

    Args:
      source: a `ChainSource`.
      twin: a `ChainTwin` of its chain; its scores change.
      x: int8 samples [n, values].
      y: labels.
      target: name of a target.
    """
    chain, kernels = source.chain, find_target(target).kernels
    count, infer, train = len(chain.layers), [], []
    for sample, label in zip(x, y, strict=True):
        twin.step(sample[None], np.array([label], np.int32))
        outputs = [twin.net.output(i) for i in range(count)]
        infer.append(price(chain_work(chain, kernels, sample, outputs, None), target))
        errors = [twin.net.error(i) for i in range(count)]
        if np.any(errors[-1]):
            train.append(price(chain_work(chain, kernels, sample, outputs, errors), target))
    return {
        "infer": float(np.mean(infer)),
        "train": float(np.mean(train)) if train else None,
        "trained_share": len(train) / len(infer),
    }


def graph_work(source, begin, end, activations=None):
    """Work of operators begin .. end - 1 of a `GraphSource`.

    Args:
      source: the `GraphSource`.
      begin, end: numbers of operators.
      activations: `{tensor index: int8 codes}` of a sample; without them no code is taken for a
        zero.
    """
    work = {}
    for number in range(begin, end):
        call = source.calls[number]
        if call is None:
            continue
        kind = call.text.split("(")[0]
        per_output = _PER_OUTPUT.get(kind)
        if per_output:
            work[per_output] = work.get(per_output, 0) + call.outputs
        if kind == "LaneConv2DInt8":
            for name, count in _lane_work(source, number, activations).items():
                work[name] = work.get(name, 0) + count
        else:
            work[kind] = work.get(kind, 0) + call.work
    return work


def _lane_work(source, number, activations):
    op = Op(source.model, number)
    in_h, in_w, in_c = op.shape(0)[1:]
    kernel_h, kernel_w, _ = op.shape(1)[1:]
    out_h, out_w, out_c = op.shape(-1)[1:]
    o = op.options
    top = padding(op, in_h, kernel_h, o.strideH)[1]
    left = padding(op, in_w, kernel_w, o.strideW)[1]
    entries = np.full((in_h, in_w), in_c)
    codes = None if activations is None else activations.get(op.inputs[0])
    if codes is not None:
        factors = np.asarray(codes, np.int32).reshape(in_h, in_w, in_c) - op.zero(0)
        wide = (factors > 127) | (factors < -128)
        entries = ((factors != 0).astype(int) + wide).sum(2)
    layer = ChainLayer("conv", [in_h, in_w, in_c, out_h, out_w, out_c, kernel_h, kernel_w,
                                o.strideH, o.strideW, top, left])  # fmt: skip
    counts = window_sums(layer, entries)
    scanned = window_sums(layer, np.full((in_h, in_w), in_c))
    blocks = -(-out_c // 4)
    return {
        "pairs": int(((counts + 1) // 2).sum()) * blocks,
        "calls": out_h * out_w * blocks,
        "scan": int(scanned.sum()),
        "listed": int(counts.sum()),
        "pack": kernel_h * kernel_w * in_c * out_c,
    }


def graph_costs(source, target, activations=None):
    """Costs of a `GraphSource`: `infer` and, for zo, `train` at the first and the last q.

    Args:
      source: the `GraphSource`.
      target: name of a target.
      activations: as `graph_work` takes them.
    """
    count = len(source.graph.operators)
    costs = {"infer": price(graph_work(source, 0, count, activations), target)}
    zo = source.zo
    if zo is None:
        return costs
    prefix = graph_work(source, 0, source.first, activations)
    suffix = graph_work(source, source.first, source.last, activations)
    sizes = sum(source.trained_size(item.tensor) for item in zo.tensors)
    for name, (q, _, _) in (("train", zo.rates[0]), ("train_last_q", zo.rates[-1])):
        passes = q * (2 if zo.estimator == 2 else 1) + (1 if zo.estimator == 0 else 0)
        work = {kind: zo.batch * amount for kind, amount in prefix.items()}
        for kind, amount in suffix.items():
            work[kind] = work.get(kind, 0) + zo.batch * passes * amount
        work["zo_perturb"] = 2 * q * (2 if zo.estimator == 2 else 1) * sizes
        work["zo_update"] = sizes
        work["zo_momentum"] = sizes if zo.beta_q8 else 0
        work["zo_loss"] = zo.batch * passes * source.logits_size()
        costs[name] = price(work, target)
    return costs
