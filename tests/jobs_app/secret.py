"""Jobs with arguments and results that nobody is to see."""

from __future__ import annotations

from typing import Any

from django_qless import job


@job("mail", sensitive="password")
def sign_in(user: str, password: str, *, remember: bool = False) -> str:
    return f"{user} with {len(password)} letters"


@job(sensitive=["card", "return"])
def charge(amount: int, **details: str) -> dict[str, Any]:
    return {"amount": amount, **details}


@job(sensitive=["details"])
def gather(amount: int, **details: str) -> int:
    return amount


@job(sensitive=True)
def whisper(*words: str, **more: str) -> str:
    return " ".join(words)


@job(sensitive=True, unique=True)
def whisper_once(word: str) -> str:
    return word


@job(sensitive="password", unique=True)
def sign_up(user: str, password: str) -> str:
    return user


@job("vault", sensitive=["password"], retries=0)
def turn_away(user: str, password: str) -> None:
    raise PermissionError(f"{user} may not")


@job("vault", sensitive=["pin"])
class Vault:
    @staticmethod
    def process(job: Any) -> None:
        job["opened"] = job["pin"] == "1234"
        job.move_to("vault-2")


@job("vault", sensitive=True)
class Safe:
    @staticmethod
    def process(job: Any) -> None: ...


@job
def open_one(password: str, *, secret: str = "") -> str:
    """Not declared sensitive; tests say what it was once."""
    return password


@job("contacts", entity=True, sensitive=True)
def keep_contact(batch: dict[str, list[str]]) -> None: ...
