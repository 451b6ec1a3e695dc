"""`dpinfer audit` finds nothing here, and finds what is planted."""

import json

import numpy as np
import pytest

import dpinfer.audit
import dpinfer.privacy.gate
from audit.attack import Inverted
from dpinfer.numerics.noise_laws import Gaussian, SphericalLaplace
from helpers.terminal import run_here


def names(report):
    return {finding.name for finding in report.findings if finding.is_fault}


def test_nothing_is_found_here():
    done = run_here("audit", "--seconds", "1", "--json")
    assert done.returncode == 0
    document = json.loads(done.stdout)
    assert document["clean"] is True
    assert [finding["name"] for finding in document["findings"]] == list(dpinfer.audit.CHECKS)


def test_progress_and_words():
    done = run_here("audit", "--seconds", "1")
    assert "Nothing was found." in done.stdout
    assert [line for line in done.stderr.splitlines() if line] == [
        f"trying: {name}" for name in dpinfer.audit.CHECKS
    ]


HONEST = dpinfer.privacy.gate.rounded


def thin(law, *others):
    law = (
        Gaussian(0.3 * law.scale) if isinstance(law, Gaussian) else SphericalLaplace(law.rate / 0.3)
    )
    return HONEST(law, *others)


def test_too_little_noise_is_found(monkeypatch):
    monkeypatch.setattr(dpinfer.privacy.gate, "rounded", thin)
    assert names(dpinfer.audit.run(1.0)) == {"law", "black box"}


def test_the_same_noise_twice_is_found(monkeypatch):
    def stuck(law, step, size, bits):
        return np.arange(size)

    monkeypatch.setattr(dpinfer.privacy.gate, "rounded", stuck)
    assert {"fresh", "law"} <= names(dpinfer.audit.run(0.2))


def test_float_noise_is_found(monkeypatch):
    def added(self, exact, noise, bound):
        return exact + noise.sample(Inverted(None), (exact.size,)).reshape(exact.shape)

    monkeypatch.setattr(dpinfer.privacy.gate.Gate, "_added", added)
    assert {"grid", "bits"} <= names(dpinfer.audit.run(0.2))


@pytest.mark.parametrize("name", ["ndtri", "log"])
def test_poor_functions_are_found(name, monkeypatch):
    honest = dpinfer.audit.ndtri if name == "ndtri" else np.log
    owner = dpinfer.audit if name == "ndtri" else dpinfer.audit.np
    monkeypatch.setattr(owner, name, lambda values: honest(values) * (1 + 2.0**-34))
    assert dpinfer.audit.CHECKS["floats"](0.0).is_fault
