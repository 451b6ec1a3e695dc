"""Batches on a device are those of the package, on any library of the array standard."""

import importlib

import numpy as np
import pytest
from studies.paper import device
from studies.paper.device import DeviceArrays, DeviceEngine

import dpinfer as dp
from dpinfer.errors import installed
from dpinfer.mechanisms.risk import Risk
from dpinfer.numerics.noise_laws import SphericalLaplace
from dpinfer.rows.source import Rows
from dpinfer.simulate import batched
from dpinfer.simulate.batched import TOLERANCE, Engine
from dpinfer.simulate.population import Population, bootstrap_counts
from helpers.support import labelled

N = 1500
D = 4
C = 0.005
K = 20
X, Y = labelled(N, D)
COUNTS = bootstrap_counts(1, range(K), N)
B = SphericalLaplace(0.25).sample(np.random.default_rng(0), (K, D))
LOSSES = [dp.Logistic(), dp.HuberHinge(0.5)]
STANDARD = [name for name in ("numpy", "array_api_strict") if installed(name)]


@pytest.fixture(params=STANDARD)
def arrays(request):
    return DeviceArrays(importlib.import_module(request.param))


def engines(loss, arrays, penalty=C, n=N):
    population = Population.of_records(Rows.of(X[:n], Y[:n]))
    risk = Risk.penalised(loss, penalty, n)
    on_device = DeviceEngine(population, risk, arrays)
    on_device.rows_in_tile = 512
    return Engine(population, risk), on_device


@pytest.mark.parametrize("loss", LOSSES)
def test_a_device_gives_the_same_numbers(loss, arrays):
    here, there = engines(loss, arrays)
    a = here.fit(COUNTS, B)
    b = there.fit(arrays.put(COUNTS), B)
    for name in ("coef", "curvature", "score"):
        assert np.allclose(getattr(a, name), getattr(b, name), rtol=1e-8, atol=1e-8)
    moved = a.coef + 0.1
    ours = here.matrices(COUNTS, moved)
    theirs = there.matrices(arrays.put(COUNTS), moved)
    assert np.allclose(ours, theirs, rtol=1e-10)


@pytest.mark.parametrize("size", [30.0, 1000.0])
def test_large_perturbations_are_certified_on_a_device(arrays, size, monkeypatch):
    here, there = engines(dp.HuberHinge(0.5), arrays, penalty=0.02, n=60)
    counts = bootstrap_counts(2, range(30), 60)
    linear = SphericalLaplace(D / size).sample(np.random.default_rng(1), (30, D))
    a = here.fit(counts, linear)
    monkeypatch.setattr(batched, "PASSES", 1)  # the certified minimiser has to finish some
    b = there.fit(arrays.put(counts), linear)
    assert np.all(b.certificate <= TOLERANCE)
    assert np.allclose(a.coef, b.coef, atol=1e-6)


@pytest.mark.parametrize("truth", [None, 0.3])
def test_a_device_draws_the_same(truth, arrays, monkeypatch):
    """Also where many replicates are drawn in parts."""
    if truth is None:
        population = Population.of_records(Rows.of(X[:301], Y[:301]))
    else:
        population = Population.of_truth(X[:301], np.full(301, truth))
    monkeypatch.setattr(device, "_DRAWN_TOGETHER", 4)
    drawn = arrays.counts(population, 7, range(3, 14))
    assert np.array_equal(population.counts(7, range(3, 14)), np.asarray(drawn))


def test_studies_on_a_device(arrays, monkeypatch):
    monkeypatch.setattr(DeviceArrays, "on", lambda device: arrays)
    common = {"loss": dp.Logistic(), "penalty": 0.01, "budget": dp.ZCDP(0.5), "replicates": 200}
    common |= {"seed": 3, "level": 0.9}
    here = dp.simulate.coverage(X, Y, **common)
    there = device.coverage(X, Y, device="any", **common)
    assert there.setting == here.setting
    for name in ("coverage", "length", "nonprivate_length", "target"):
        assert np.allclose(getattr(here, name), getattr(there, name), rtol=1e-6)
    low, high = dp.simulate.variability(X, Y, **common)
    again = device.variability(X, Y, device="any", **common)
    assert np.allclose([low, high], again, rtol=1e-6)


def test_what_a_device_cannot_do(arrays, monkeypatch):
    common = {"budget": dp.ZCDP(0.5), "replicates": 4, "seed": 0, "level": 0.95, "device": "cuda"}
    if not installed("torch"):
        with pytest.raises(dp.InputError, match=r"pip install -r studies/paper/requirements"):
            device.coverage(X, Y, penalty=0.01, **common)
    monkeypatch.setattr(DeviceArrays, "on", lambda device: arrays)
    with pytest.raises(dp.InputError, match="drop --device"):
        device.coverage(X, Y * 0.5, loss=dp.Huber(0.3), penalty=0.01, **common)
    steps = dp.LogisticRegression(bounds=(-1, 1), classes=(-1, 1), budget=dp.ZCDP(0.5))
    with pytest.raises(dp.InputError, match="with a penalty"):
        device.coverage(steps, X, Y, **{k: v for k, v in common.items() if k != "budget"})
