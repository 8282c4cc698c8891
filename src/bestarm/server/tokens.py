"""Access tokens: who may view, who may ask and tell, who may manage.

A token is 32 random bytes under a public number: `bestarm-7-…`. Only its digest is stored; as it
is random and long, a fast digest is enough. It is shown once, when it is created.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import TypeVar

import sqlalchemy as sa

from bestarm.errors import InvalidInputError, StoreError
from bestarm.live.store import Session, Snapshot, Store
from bestarm.live.store.rows import damaged
from bestarm.server.errors import ForbiddenError, UnauthorizedError

T = TypeVar("T")

_PREFIX = "bestarm"
_metadata = sa.MetaData()
_tokens = sa.Table(  # made with the first token
    "bestarm_tokens",
    _metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.String(200), nullable=False),
    sa.Column("role", sa.SmallInteger, nullable=False),
    sa.Column("digest", sa.String(64), nullable=False),
    sa.Column("created", sa.Float(53), nullable=False),
    sa.Column("revoked", sa.Float(53)),
)
_FIND = sa.select(_tokens.c.role, _tokens.c.digest).where(
    _tokens.c.id == sa.bindparam("id"), _tokens.c.revoked.is_(None)
)
_NUMBER = sa.select(_tokens.c.id).where(_tokens.c.digest == sa.bindparam("digest"))
_LIST = sa.select(
    *(_tokens.c[name] for name in ("id", "name", "role", "created", "revoked"))
).order_by(_tokens.c.id)
_REVOKE = (
    sa.update(_tokens)
    .where(_tokens.c.id == sa.bindparam("number"), _tokens.c.revoked.is_(None))
    .values(revoked=sa.bindparam("now"))
)
_TOKEN = re.compile(rf"{_PREFIX}-([0-9]{{1,9}})-([\w-]+)")


class Role(IntEnum):
    """What a token allows; each role may do what those below it may."""

    VIEW = 1
    TELL = 2
    MANAGE = 3

    @classmethod
    def named(cls, name: object) -> Role:
        """The role of a name."""
        try:
            return cls[str(name).upper()]
        except KeyError:
            raise InvalidInputError(
                f"`role` must be view, tell or manage; got {name!r}.",
                field="role",
                value=name,
                remedy="A page needs view, a program that asks and tells needs tell.",
            ) from None

    @property
    def word(self) -> str:
        """Its name, as users write it."""
        return self.name.lower()


@dataclass(frozen=True)
class Token:
    """A token without its secret; times are in seconds since 1970."""

    id: int
    name: str
    role: Role
    created: float
    revoked: float | None


def create_token(store: Store, name: str, role: Role) -> str:
    """Create a token; the text returned is not stored and cannot be shown again."""
    if not isinstance(name, str) or not name.isprintable() or not 0 < len(name) <= 200:
        raise InvalidInputError(
            f"`name` must say who uses the token, in 1 to 200 characters; got {name!r}.",
            field="name",
            value=name,
            remedy="For example shop.",
        )
    store.prepare()
    store.create_tables(_metadata)
    secret = secrets.token_urlsafe(32)
    row = {"name": name, "role": int(role), "digest": digest(secret), "created": store.now()}
    with store.transaction() as session:
        session.insert(_tokens, row)
        ((number,),) = session.fetch(_NUMBER, digest=row["digest"])
    return f"{_PREFIX}-{number}-{secret}"


def revoke_token(store: Store, number: int) -> Token:
    """Revoke a token; from the next request on it allows nothing. Repeating it is harmless."""
    if number not in {token.id for token in list_tokens(store)}:
        message, remedy = f"There is no token {number}.", "`bestarm token list` shows them."
        raise InvalidInputError(message, field="id", value=number, remedy=remedy)
    now = store.now()
    with store.transaction() as session:
        session.execute(_REVOKE, number=number, now=now)
    return next(token for token in list_tokens(store) if token.id == number)


def list_tokens(store: Store) -> list[Token]:
    """All tokens ever made, oldest first."""
    if not store.has_table(_tokens):
        return []
    with store.snapshot() as session:
        rows = session.fetch(_LIST)
    return [Token(number, name, _role(number, role), *times) for number, name, role, *times in rows]


def _role(number: int, role: int) -> Role:
    try:
        return Role(role)
    except ValueError:
        raise damaged(f"Token {number} has a role on record that there is not: {role!r}.") from None


def find_role(store: Store, text: str) -> Role | None:
    """What a token allows, or None if it is not one, or not one any more."""
    return _in_snapshot(store, partial(_role_of, text=text))


def check_token(tx: Snapshot, text: str, role: Role) -> None:
    """Raise unless a token allows what this role may do, as the transaction sees it."""
    assert isinstance(tx, Snapshot)
    require(_role_of(tx.session, text), role)


def _role_of(session: Session | None, text: str) -> Role | None:
    found = _TOKEN.fullmatch(text)
    number, secret = (None, "") if found is None else (int(found[1]), found[2])
    role, known = _read(session, number)
    return role if hmac.compare_digest(known, digest(secret)) else None


def require(found: Role | None, role: Role) -> Role:
    """A caller's role, which must be at least another."""
    if found is None:
        remedy = (
            "Send it as `Authorization: Bearer …`; create one with `bestarm token create NAME`."
        )
        message = "This needs a valid access token."
        raise UnauthorizedError(message, field="Authorization", remedy=remedy)
    if found < role:
        message = f"This needs an access token of role {role.word}."
        remedy = f"Create one with `bestarm token create NAME --role {role.word}`."
        raise ForbiddenError(message, field="Authorization", value=found.word, remedy=remedy)
    return found


def require_bearer(found: Role | None, role: Role) -> None:
    """Raise if the role falls short, and say that the header with the token lacks its scheme."""
    if found is None or found < role:
        message = "The header Authorization does not have the form `Bearer TOKEN`."
        remedy = "Write the word Bearer and a space before the token."
        raise UnauthorizedError(message, field="Authorization", remedy=remedy)


def token_number(text: str) -> int | None:
    """The public number in the text of a token, which need not exist."""
    found = _TOKEN.fullmatch(text)
    return None if found is None else int(found[1])


def create_view_session(store: Store, token: str) -> str | None:
    """A text that stands for a valid token where viewing is enough, or None if it is not valid.

    It is what a browser keeps: the token cannot be found from it, and it ends with the token.
    """
    if find_role(store, token) is None:
        return None
    number = token_number(token)
    _, known = _in_snapshot(store, partial(_read, number=number))
    return f"{number}-{_view_proof(known)}"


def is_view_session(store: Store, text: str) -> bool:
    """Whether a session was created for a token that is still valid."""
    number, _, proof = text.partition("-")
    known_form = number.isascii() and number.isdigit() and len(number) <= 9
    read = partial(_read, number=int(number) if known_form else None)
    role, known = _in_snapshot(store, read)
    same = hmac.compare_digest(_view_proof(known).encode(), proof.encode("utf-8", "replace"))
    return role is not None and same


def _in_snapshot(store: Store, read: Callable[[Session | None], T]) -> T:
    """What is read in a transaction of its own; of nothing where there are no tokens yet."""
    try:
        with store.snapshot() as session:
            return read(session)
    except StoreError:
        if store.has_table(_tokens):
            raise
        return read(None)


def _read(session: Session | None, number: int | None) -> tuple[Role | None, str]:
    """Role and digest of a token that was not revoked; where there is none, a digest of nothing.

    So that comparing takes the same time then.
    """
    if number is not None and session is not None:
        for role, known in session.fetch(_FIND, id=number):
            return _role(number, role), known
    return None, digest("")


def _view_proof(digest: str) -> str:
    return hmac.new(digest.encode(), b"bestarm view session", hashlib.sha256).hexdigest()


def digest(secret: str) -> str:
    """What is kept of a secret."""
    return hashlib.sha256(f"bestarm token {secret}".encode("utf-8", "replace")).hexdigest()
