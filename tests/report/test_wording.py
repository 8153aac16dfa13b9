"""Sentences about how sure a figure is."""

from __future__ import annotations

import msgspec

import lowtide
from lowtide.certificates import CutCertificate, SearchCertificate
from lowtide.report.view import PlanView
from lowtide.report.wording import caveats, fits, proof_sentence


def test_each_certificate_has_its_sentence():
    """A cut names its op, a search its states, nothing says that nothing is proved."""
    cut = lowtide.research.plan("zoo:nasnet_a_cifar")
    assert isinstance(cut.certificate, CutCertificate)
    assert "cell7/Slice_271" in proof_sentence(cut)
    search = lowtide.research.plan("zoo:swiftnet_cell_a")
    assert isinstance(search.certificate, SearchCertificate)
    assert f"{search.certificate.states} states" in proof_sentence(search)
    own = lowtide.research.plan("zoo:nasnet_a_cifar", method="own")
    assert not own.optimal
    assert "neither known nor ruled out" in proof_sentence(own)


def test_a_limit_of_time_is_no_proof():
    """What ended the search is said."""
    plan = lowtide.research.plan("zoo:nasnet_a_cifar", method="own")
    assert "it reached its time limit" in proof_sentence(msgspec.structs.replace(plan, stopped="time"))


def test_traffic_has_its_own():
    """With moves."""
    plan = lowtide.research.plan("zoo:swiftnet_cell_a", memories=["fast=190KiB"], target="strict", time=2)
    told = proof_sentence(plan)
    assert f"{plan.traffic_bytes or 0:,} B" in told
    assert ("optimal" in told) == plan.optimal


def test_the_target_is_never_left_out():
    """Nobody's rules are called so."""
    told = " ".join(caveats(lowtide.research.plan("zoo:swiftnet_cell_a")))
    assert "target generic" in told
    assert "the rules of a compiler" in told
    assert "not counted" in told


def test_spare_bytes_are_negative():
    """Required, available, excess."""
    plan = lowtide.research.plan("zoo:swiftnet_cell_a", budget="1MiB")
    rows = dict(fits(PlanView.of(plan)))
    assert rows["excess"] == plan.required_bytes - 2**20 < 0
