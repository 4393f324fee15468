"""Compressed and encrypted texts, and jobs that carry them from end to end."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.fernet import Fernet
from django.conf import settings
from django.test import override_settings

from django_qless import current_job, exponential, job, signals
from django_qless.conf import sealing as of_settings
from django_qless.conf.connections import connections
from django_qless.core import Reserved, TooBig
from django_qless.exceptions import Fail
from django_qless.job_types.redaction import (
    SEALED_NOW,
    may_show_payloads,
    may_show_result,
    redact,
)
from django_qless.runtime.environment import DjangoEnvironment
from django_qless.serialization import sealing
from django_qless.serialization.sealing import Codec, new_cipher

if TYPE_CHECKING:
    from collections.abc import Iterator

OLD, NEW, OTHER = (Fernet.generate_key().decode() for _ in range(3))
LONG = json.dumps({"v": 1, "args": ["word " * 2000]})

seen: list[Any] = []


@pytest.fixture(autouse=True)
def empty() -> None:
    seen.clear()


@job(retries=0)
def remember(value: Any, **more: Any) -> Any:
    current = current_job()
    assert current is not None
    seen.append((value, current.app_data, current.data["args"][0]))
    return value


@job(retries=0)
async def aremember(value: Any, **more: Any) -> Any:
    seen.append(value)
    return value


@job(retries=0)
def gather() -> Any:
    current = current_job()
    assert current is not None
    return list(current.dependency_results().values())


@contextmanager
def alias(**given: Any) -> Iterator[None]:
    """The default alias has these settings."""
    default = {**settings.QLESS["default"], **given}
    with override_settings(QLESS={**settings.QLESS, "default": default}):
        yield


class TestCodec:
    @pytest.mark.parametrize("keys", [(), (OLD,), (NEW, OLD)])
    @pytest.mark.parametrize("compression", [None, "zlib", "zstd"])
    @pytest.mark.parametrize("text", ["{}", LONG, '"ü"', "1", '"qless"'])
    def test_what_is_sealed_opens(
        self, keys: tuple[str, ...], compression: str | None, text: str
    ) -> None:
        cipher = new_cipher(keys) if keys else None
        sealed = Codec(cipher, compression).seal(text)
        assert isinstance(json.loads(sealed), str) or sealed == text
        assert sealing.open_text(sealed, cipher) == text
        assert (sealed == text) == (not keys and (text != LONG or not compression))
        if compression and text == LONG:
            assert len(sealed) < len(text) / 10

    def test_what_is_sealed_is_not_sealed_again(self) -> None:
        codec = Codec(new_cipher([NEW]), "zlib")
        sealed = codec.seal(LONG)
        assert codec.seal(sealed) == sealed

    def test_payloads_that_no_key_opens_are_not_shown(self, qless) -> None:
        sealed = Codec(new_cipher([OTHER])).seal('{"v":1}')
        with alias(ENCRYPTION_KEYS=[NEW]):
            assert not may_show_payloads("renamed.since", sealed)
            assert not may_show_result("renamed.since", sealed)
        with alias(ENCRYPTION_KEYS=[OTHER]):
            assert may_show_payloads("renamed.since", sealed)

    def test_libraries_that_are_missing_are_named(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sealed = Codec(None, "zstd").seal(LONG)
        monkeypatch.setattr(sealing, "ZSTD_MODULES", ("no_such_module",))
        sealing.zstd.cache_clear()
        remedy = r"pip install django-qless\[zstd\]"
        with pytest.raises(ImportError, match=remedy):
            Codec(None, "zstd").seal(LONG)
        with pytest.raises(Fail, match=f"It cannot be opened here: .*{remedy}"):
            sealing.open_text(sealed, None)
        monkeypatch.undo()
        sealing.zstd.cache_clear()
        assert sealing.open_text(sealed, None) == LONG
        monkeypatch.setitem(sys.modules, "cryptography.fernet", None)
        with pytest.raises(ImportError, match=r"pip install django-qless\[encryption"):
            new_cipher([NEW])

    def test_what_compression_makes_longer_is_left(self) -> None:
        text = json.dumps(Fernet.generate_key().decode() * 1)
        assert Codec(None, "zlib").seal(text) == text

    def test_a_bomb_does_not_fill_the_memory(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sealing, "MOST_OPENED_BYTES", 1000)
        for method in ("zlib", "zstd"):
            sealed = Codec(None, method).seal(LONG)
            with pytest.raises(Fail, match="damaged"):
                sealing.open_text(sealed, None)

    @pytest.mark.parametrize(
        "text",
        [
            '"qless:zlib:AAAA"',
            '"qless:fernet:x"',
            # Base64 readers may pass over what is no part of it.
            pytest.param(f'{Codec(None, "zlib").seal(LONG)[:-1]}!"', id="stray"),
        ],
    )
    def test_damage_is_told(self, text: str) -> None:
        with pytest.raises(Fail) as raised:
            sealing.open_text(text, new_cipher([OLD]))
        assert raised.value.group == "cannot-decrypt"

    def test_a_string_of_somebody_else_stays(self) -> None:
        assert sealing.open_text('"qless:words:x"', None) == '"qless:words:x"'
        assert of_settings.open_value('qless:"') == 'qless:"'


class TestJobs:
    @pytest.mark.parametrize("function", [remember, aremember])
    def test_data_and_result_are_sealed_from_end_to_end(
        self, qless: Any, each_work: Any, function: Any
    ) -> None:
        with alias(ENCRYPTION_KEYS=[OLD]):
            handle = function.using(tags=["t"]).delay({"card": 4111}, x=1)
            stored = qless.get(handle.jid)
            assert stored.data.startswith('"qless:fernet:')
            assert handle.data == stored.data
            # What operators need stays readable.
            assert (stored.queue, stored.klass, stored.tags) == (
                *("default", function.name, ("t",)),
            )
            each_work()
            assert handle.result() == {"card": 4111}
            assert qless.result(handle.jid).startswith("qless:fernet:")
            assert "4111" not in str(qless.get(handle.jid))
        assert seen

    def test_app_data_are_encrypted_and_options_are_not(
        self, qless: Any, work: Any
    ) -> None:
        with alias(ENCRYPTION_KEYS=[OLD]):
            given = {"app_data": {"who": "me"}, "timeout": 30}
            handle = remember.using(**given).delay(1)
            context = qless.get(handle.jid).context
            assert context["options"] == {"timeout": 30}
            assert context["sealed"].startswith("qless:fernet:")
            assert context.keys() == {"options", "sealed"}
            work()
        assert seen == [(1, {"who": "me"}, 1)]

    def test_many_and_dependency_results(self, qless: Any, work: Any) -> None:
        with alias(ENCRYPTION_KEYS=[OLD], COMPRESSION="zlib"):
            first = remember.enqueue_many([remember.args("a" * 9000), remember.args(2)])
            last = gather.using(after=first).delay()
            assert all("fernet" in qless.get(each.jid).data for each in first)
            work()
            assert last.result() == ["a" * 9000, 2]

    def test_the_limit_counts_what_is_stored(self, qless: Any, work: Any) -> None:
        value = "word " * 400_000  # 2 MB
        with pytest.raises(TooBig, match=r"the arguments take 2,000,0\d\d bytes"):
            remember.delay(value)
        with alias(COMPRESSION="zlib"):
            handle = remember.delay(value)
            assert len(qless.get(handle.jid).data) < 20_000
            work()
            assert handle.refresh().state == "complete"
            assert handle.result() == value

    def test_keys_are_rotated(self, qless: Any, work: Any) -> None:
        with alias(ENCRYPTION_KEYS=[OLD]):
            handle = remember.delay(1)
        with alias(ENCRYPTION_KEYS=[NEW, OLD]):
            work()
            assert handle.result() == 1
            stored = qless.result(handle.jid)
        with alias(ENCRYPTION_KEYS=[NEW]):
            assert handle.result() == 1
        with pytest.raises(Fail):
            of_settings.open_value(stored)

    @pytest.mark.parametrize("keys", [[], [OTHER]])
    def test_without_its_key_a_job_fails_and_is_kept(
        self, qless: Any, each_work: Any, keys: list[str]
    ) -> None:
        with alias(ENCRYPTION_KEYS=[OLD]):
            handle = remember.delay(1)
            data = handle.data
        with alias(ENCRYPTION_KEYS=keys):
            each_work()
            failed = handle.refresh()
            assert failed.failure is not None
            assert failed.failure.group == "cannot-decrypt"
            assert "ENCRYPTION_KEYS" in failed.failure.message
            assert failed.data == data
        with alias(ENCRYPTION_KEYS=[NEW, OLD]):
            failed.retry()
            each_work()
            assert handle.result() == 1

    def test_encryption_ends_where_the_keys_move_to_another_alias(
        self, qless: Any, work: Any
    ) -> None:
        with alias(ENCRYPTION_KEYS=[OLD]):
            encrypted = remember.delay(1)
        other = {**settings.QLESS["other"], "ENCRYPTION_KEYS": [OLD]}
        with override_settings(QLESS={**settings.QLESS, "other": other}):
            plain = remember.delay(2)
            assert "fernet" in encrypted.refresh().data
            assert "fernet" not in plain.refresh().data
            assert work() == 2
            assert (encrypted.result(), plain.result()) == (1, 2)
            assert qless.result(encrypted.jid) == 1

    def test_unique_keys_are_of_what_is_meant(self, qless: Any) -> None:
        with alias(ENCRYPTION_KEYS=[OLD]):
            first = remember.using(unique=True).delay(1)
            assert remember.using(unique=True).delay(1).jid == first.jid
            assert remember.using(unique=True).delay(2).jid != first.jid

    def test_a_schedule_keeps_its_arguments_sealed(self, qless: Any, work: Any) -> None:
        with alias(ENCRYPTION_KEYS=[OLD]):
            schedule = remember.recur(5, every=3600)
            kept = qless.schedule_get(schedule.id)
            assert "fernet" in kept.data
            schedule.run()
            work()
            assert {value for value, *_ in seen} == {5}

    def test_signals_see_the_job_as_it_is(self, qless: Any, work: Any) -> None:
        heard: list[Any] = []

        def receive(job: Any, **more: Any) -> None:
            heard.append(job.data["args"])

        signals.job_started.connect(receive)
        try:
            with alias(ENCRYPTION_KEYS=[OLD]):
                remember.delay(1)
                work()
        finally:
            signals.job_started.disconnect(receive)
        assert heard == [[1]]

    def test_people_see_it_with_a_key_only(self, qless: Any) -> None:
        with alias(ENCRYPTION_KEYS=[OLD]):
            data = remember.delay("card").data
            assert '"card"' in redact(remember.name, data).text
            assert may_show_result(remember.name, data)
        with alias(ENCRYPTION_KEYS=[OTHER]):
            assert redact(remember.name, data).text == json.dumps(SEALED_NOW)
            assert not may_show_result(remember.name, data)

    @pytest.mark.parametrize(
        ("data", "context", "is_sealed"),
        [
            ('"qless:x"', "", True),
            ("{}", '{"a":"qless:x"}', True),
            ('["qless:"]', "", False),
            ('"qless"', "{}", False),
        ],
    )
    def test_only_what_begins_as_such_is_opened(
        self, data: str, context: str, *, is_sealed: bool, monkeypatch: Any
    ) -> None:
        monkeypatch.setattr(of_settings, "open_text", lambda text: f"open {text}")
        monkeypatch.setattr(of_settings, "open_context", lambda values: values)
        reserved = Reserved("j", "q", "k", data, "1", 5, 5, 0, "", context, 0.0)
        opened = DjangoEnvironment("default").opened(reserved)
        assert (opened is reserved) is not is_sealed
        assert opened.data == (f"open {data}" if is_sealed else data)

    def test_options_of_a_call_still_reach_the_worker(
        self, qless: Any, work: Any
    ) -> None:
        with alias(ENCRYPTION_KEYS=[OLD]):
            handle = remember.using(backoff=exponential(3), result_ttl=0).delay(1)
            work()
            assert handle.refresh().state == "complete"
            assert connections["default"].result(handle.jid) is None


@job(retries=0)
class Pantry:
    """A class job, whose data are its own."""

    @staticmethod
    def process(job: Any) -> None:
        seen.append(dict(job.data))
        job.data["seen"] = True


def test_a_class_job_changes_sealed_data(qless: Any, work: Any) -> None:
    with alias(ENCRYPTION_KEYS=[OLD]):
        handle = Pantry.delay(jam=3)  # type: ignore[attr-defined]
        work()
        assert seen == [{"jam": 3}]
        kept = handle.refresh()
        assert kept.state == "complete"
        assert kept.data.startswith('"qless:fernet:')
        assert json.loads(of_settings.open_text(kept.data))["jam"] == 3
