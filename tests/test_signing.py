"""Signatures: a key signs and shows itself to nobody; an approval that is not an approver's starts nothing."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from foreplan import Engine, Plan, Principal, Secret, tool
from foreplan.planner.approvals import Approval, read_approval
from foreplan.policies.errors import BadInput, NotApproved
from foreplan.policies.signing import (
    Ed25519Signer,
    Ed25519Verifier,
    HmacSigner,
    Signer,
    read_signer,
    read_verifier,
)

HEX = "0123456789abcdef" * 4
PLAN = Plan.model_validate({"steps": [{"id": "pay", "tool": "pay"}]})


@tool(effect="acts")
def pay() -> str:
    """Pay."""
    return "paid"


@pytest.fixture(params=["hmac", "ed25519"])
def make(request: pytest.FixtureRequest) -> Callable[..., Signer]:
    """Both kinds of key: `make(1)` and `make(2)` are different ones."""
    kind: Any = HmacSigner if request.param == "hmac" else Ed25519Signer

    def make(number: int, id: str = "") -> Signer:
        signer: Signer = kind(bytes([number]) * 32, id)
        return signer

    return make


def test_what_was_signed_is_recognised_and_nothing_else(make: Callable[..., Signer]) -> None:
    """Another text, another signature or another key: no."""
    signer, other = make(1), make(2)
    signature = signer.sign(b"yes")
    assert signer.verify(b"yes", signature)
    assert not signer.verify(b"no", signature)
    assert not signer.verify(b"yes", signature[:-1])
    assert not signer.verify(b"yes", b"")
    assert not other.verify(b"yes", signature)
    assert make(1).fingerprint == signer.fingerprint != other.fingerprint


def test_hmac_is_that_of_rfc_4231() -> None:
    """Test case 6, whose key is longer than a block."""
    signed = HmacSigner(b"\xaa" * 131).sign(b"Test Using Larger Than Block-Size Key - Hash Key First")
    assert signed.hex() == "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"


def test_ed25519_is_that_of_rfc_8032() -> None:
    """Test 2; whoever has the public key alone can verify."""
    signer = Ed25519Signer(Secret("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb"))
    signature = signer.sign(b"\x72")
    assert signature.hex().startswith("92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da")
    assert Ed25519Verifier(signer.public).verify(b"\x72", signature)


@pytest.mark.parametrize("key", [HEX, Secret(HEX), bytes.fromhex(HEX), HEX.upper()])
def test_a_key_is_bytes_or_the_hex_digits_of_them(key: Any) -> None:
    """As text, as a secret, as bytes: the same key."""
    assert HmacSigner(key).fingerprint == HmacSigner(HEX).fingerprint


def test_a_key_comes_from_a_file_or_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line end is no part of it; what is PEM is an Ed25519 key."""
    (tmp_path / "key").write_text(HEX + "\n")
    monkeypatch.setenv("AUDIT_KEY", HEX)
    expected = HmacSigner(HEX).fingerprint
    assert HmacSigner.from_environment("AUDIT_KEY").fingerprint == expected
    assert (
        read_signer(tmp_path / "key").fingerprint == read_verifier(tmp_path / "key").fingerprint == expected
    )
    signer = Ed25519Signer(b"1" * 32)
    (tmp_path / "public.pem").write_text(signer.public)
    assert read_verifier(tmp_path / "public.pem").fingerprint == signer.fingerprint
    with pytest.raises(BadInput, match="a public key, which cannot sign"):
        read_signer(tmp_path / "public.pem")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: HmacSigner("too short"), "at least 32 bytes, this one has 9; .* makes one"),
        (lambda: HmacSigner(HEX[:62]), None),
        (lambda: HmacSigner(7), "a key is a Secret, text or bytes, not int"),  # type: ignore[arg-type]
        (
            lambda: HmacSigner.from_file("/nowhere/key"),
            "the key in '/nowhere/key' cannot be read: No such file",
        ),
        (lambda: HmacSigner.from_environment("NO_SUCH_KEY"), "variable NO_SUCH_KEY is not set"),
        (lambda: Ed25519Verifier("abc"), "no public Ed25519 key"),
        (lambda: Ed25519Signer(b"abc"), "no private Ed25519 key"),
    ],
)
def test_what_is_no_key_is_refused(make: Callable[[], object], said: str | None) -> None:
    """With a sentence that does not tell it. A text of 62 hex digits is 62 bytes of text, which is enough."""
    if said is None:
        make()
        return
    with pytest.raises(BadInput, match=said) as refused:
        make()
    assert "too short" not in str(refused.value)


def test_a_key_does_not_show_itself(make: Callable[..., Signer]) -> None:
    """Not by repr, and it cannot be pickled."""
    signer = make(1)
    assert repr(signer.fingerprint).strip("'") in repr(signer)
    assert HEX not in repr(vars(HmacSigner(HEX)))
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(signer)


# ---------------------------------------------------------------------------------------------- approvals


def edited(approval: Approval, **fields: Any) -> Approval:
    """What somebody makes of an approval who can compute its digest."""
    return approval.model_copy(update=fields)


def test_a_signed_approval_is_an_approvers(make: Callable[..., Signer]) -> None:
    """Through its file, for one run; the journal keeps the signature."""
    engine = Engine([pay], approvers=[make(2), make(1, "ada")])
    approval = engine.approve(PLAN, by="ada", signer=make(1))
    run = engine.run_blocking(PLAN, approval=read_approval(approval.to_text()))
    assert run.state == "done"
    opened: Any = next(engine.journal.events(run.id))
    assert read_approval(opened.approval).signature == approval.signature
    with pytest.raises(NotApproved, match="was used by run"):
        engine.run_blocking(PLAN, approval=approval)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda a: edited(a, signature=None), "the approval is not signed"),
        (lambda a: edited(a, scope="envelope"), "it was changed after it was signed"),
        (lambda a: edited(a, id="another-id"), "it was changed after it was signed"),
        (lambda a: edited(a, expires_at=None), "it was changed after it was signed"),
        (lambda a: edited(a, signature=a.signature.model_copy(update={"value": "zz"})), "it was changed"),
    ],
)
def test_an_approval_that_is_not_what_was_signed_starts_nothing(
    change: Callable[[Approval], Approval], said: str, make: Callable[..., Signer]
) -> None:
    """Unsigned, or edited by somebody who computed its digest anew: refused, saying what."""
    engine = Engine([pay], approvers=[make(1)])
    approval = engine.approve(PLAN, by="ada", expires_in=60, signer=make(1))
    with pytest.raises(NotApproved, match=said):
        engine.run_blocking(PLAN, approval=read_approval(change(approval).to_text()))
    assert engine.runs() == []


def test_only_approvers_approve_and_in_their_own_name(make: Callable[..., Signer]) -> None:
    """Another key, another's name, and where that is asked for the one the run acts for: refused."""
    engine = Engine(
        [pay],
        approvers=[make(1, "ada"), make(3, "bob")],
        principal=Principal(id="bob"),
        approver_differs=True,
    )
    for signer, by, said in [
        (make(2), "ada", "signed with a key that is not an approver's"),
        (make(1), "eve", "the approval says that 'eve' gave it, and 'ada' signed it"),
        (make(3), "bob", "'bob' approved it and the run acts for 'bob': somebody else must approve"),
    ]:
        with pytest.raises(NotApproved, match=said):
            engine.run_blocking(PLAN, approval=engine.approve(PLAN, by=by, signer=signer))
    assert engine.run_blocking(PLAN, approval=engine.approve(PLAN, by="ada", signer=make(1))).ok


def test_an_approval_of_earlier_days_is_read(make: Callable[..., Signer]) -> None:
    """One without a signature has no word of it, as before."""
    approval = Engine([pay]).approve(PLAN, by="ada")
    assert "signature" not in json.loads(approval.to_text())
    assert read_approval(approval.to_text()) == approval


def test_what_verifies_nothing_is_no_approver() -> None:
    """At once, not at the first run."""
    with pytest.raises(BadInput, match=r"an approver is a Verifier, such as .* not str"):
        Engine([pay], approvers=["ada"])  # type: ignore[list-item]
