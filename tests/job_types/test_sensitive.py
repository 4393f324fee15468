"""Sensitive arguments and results: what is hidden, from whom, and what stays true."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import models
from django.views.debug import ExceptionReporter

from django_qless import batch, job, workflow
from django_qless.exceptions import InvalidOption
from django_qless.job_types.redaction import (
    HIDDEN,
    SEALED_NOW,
    may_show_output,
    may_show_payloads,
    may_show_result,
    redact,
    restore_hidden,
)
from django_qless.job_types.registry import registry
from django_qless.testing import captured_jobs
from tests.jobs_app import secret
from tests.jobs_app.models import Feed
from tests.management.commands import data, run

SECRET = "hunter2"


def shown(put: Any) -> Any:
    """Return what people see of a job's data, read."""
    return json.loads(redact(put.name, put.data).text)


def arguments_shown(put: Any) -> tuple[list[Any], dict[str, Any]]:
    seen = shown(put)
    return seen.get("args", []), seen.get("kwargs", {})


class TestDeclaring:
    def test_a_name_that_is_no_parameter_is_refused(self) -> None:
        with pytest.raises(InvalidOption, match=r"names 'passwort'.*it has user, pass"):

            @job(name="wrong", sensitive=["user", "passwort"])
            def sign_in(user: str, password: str) -> None: ...

        assert "wrong" not in registry

    def test_so_it_is_where_there_are_no_parameters(self) -> None:
        with pytest.raises(InvalidOption, match="it has none"):

            @job(name="wrong", sensitive="x")
            def nothing() -> None: ...

    @pytest.mark.parametrize("value", [5, ["a", 1], [""], {"a": 1}.items()])
    def test_what_it_may_be(self, value) -> None:
        with pytest.raises(
            InvalidOption, match="sensitive must be the name of a param"
        ):

            @job(name="wrong", sensitive=value)
            def send(a: str) -> None: ...

    def test_a_class_job_returns_nothing(self) -> None:
        with pytest.raises(InvalidOption, match="a class job returns nothing"):

            @job(name="wrong", sensitive=["pin", "return"])
            class Wrong:
                @staticmethod
                def process(job: Any) -> None: ...

    def test_it_belongs_to_the_code(self) -> None:
        with pytest.raises(InvalidOption, match=r"write @job\(sensitive=…\)"):
            secret.sign_in.using(sensitive=True)

    def test_any_name_where_the_function_takes_any(self) -> None:
        assert secret.charge.options.sensitive == ("card", "return")


class TestHiding:
    @pytest.mark.parametrize(
        ("args", "kwargs", "expected"),
        [
            (["ann", SECRET], {}, (["ann", HIDDEN], {})),
            (["ann"], {"password": SECRET}, (["ann"], {"password": HIDDEN})),
            (
                [],
                {"user": "ann", "password": SECRET, "remember": True},
                ([], {"user": "ann", "password": HIDDEN, "remember": True}),
            ),
        ],
    )
    def test_an_argument_however_it_was_passed(
        self, qless, work, args, kwargs, expected
    ) -> None:
        handle = secret.sign_in.delay(*args, **kwargs)
        assert arguments_shown(handle) == expected
        assert redact(handle.name, handle.data).hidden == ("password",)
        # What the job gets is the argument itself.
        work()
        assert handle.result() == "ann with 7 letters"
        assert may_show_result(handle.name, handle.data)

    def test_names_among_keywords(self, qless) -> None:
        handle = secret.charge.delay(5, card="4111", shop="a")
        assert arguments_shown(handle) == ([5], {"card": HIDDEN, "shop": "a"})
        assert not may_show_result(handle.name, handle.data)

    def test_all_further_keywords(self, qless) -> None:
        handle = secret.gather.delay(amount=5, card="4111", shop="a")
        assert arguments_shown(handle)[1] == {
            "amount": 5,
            "card": HIDDEN,
            "shop": HIDDEN,
        }

    def test_everything(self, qless) -> None:
        handle = secret.whisper.delay("a", "b", c="d")
        assert arguments_shown(handle) == ([HIDDEN, HIDDEN], {"c": HIDDEN})
        assert not may_show_result(handle.name, handle.data)

    @pytest.mark.django_db(transaction=True)
    def test_a_method_with_a_tail(self, qless, work) -> None:
        feed = Feed.objects.create(title="news")
        handle = feed.log_in.delay("ann", SECRET, "more", "and more", note="x")
        assert arguments_shown(handle) == (["ann", *[HIDDEN] * 3], {"note": "x"})
        assert shown(handle)["row"] == feed.pk
        assert redact(handle.name, handle.data).hidden == ("password", "rest")
        work()
        assert handle.result() == "ann in news"

    def test_members_of_a_class_job(self, qless, work) -> None:
        handle = secret.Vault.delay({"pin": "1234", "owner": "ann"})
        assert shown(handle) == {"pin": HIDDEN, "owner": "ann"}
        assert json.loads(handle.data)["pin"] == "1234"
        assert work("vault") == 1
        again = handle.refresh()
        assert shown(again) == {"pin": HIDDEN, "owner": "ann", "opened": True}

    @pytest.mark.parametrize("value", [["a", "b"], "a", {"a": 1}, None])
    def test_all_of_a_class_job(self, qless, value) -> None:
        assert shown(secret.Safe.delay(value)) == HIDDEN

    def test_of_what_many_calls_enqueue(self, qless) -> None:
        handles = secret.sign_in.enqueue_many(
            [secret.sign_in.args("ann", SECRET), secret.sign_in.args("bob", SECRET)]
        )
        with workflow("w") as flow:
            node = flow.add(secret.sign_in.args("cid", SECRET))
        handles.append(node.handle)
        batch([secret.sign_in.args("dan", SECRET)]).enqueue()
        assert [arguments_shown(each)[0][1] for each in handles] == [HIDDEN] * 3
        assert SECRET not in run("qless_jobs", "list", "--json")

    def test_whatever_the_data_are(self) -> None:
        name = secret.sign_in.name
        for text in (
            *("no json", "[1]", "5", '"hunter2"', '{"v":1,"args":{"a":1}}'),
            '{"v":1,"args":["ann"],"kwargs":["hunter2"]}',
            '{"v":1,"args":["ann"],"kwargs":"hunter2"}',
        ):
            assert redact(name, text).text == json.dumps(HIDDEN)
            assert redact("somebody.elses", text, indent=None).text == text
        assert redact("somebody.elses", "[1]").text == "[\n  1\n]"

    def test_more_arguments_than_there_are_parameters(self) -> None:
        text = redact(secret.whisper_once.name, '{"v":1,"args":["a","b"]}').text
        assert json.loads(text)["args"] == [HIDDEN, HIDDEN]

    def test_a_failure_does_not_quote_what_it_cannot_read(self, qless, work) -> None:
        name = secret.sign_in.name
        qless.put("", "mail", "a", name, '"hunter2"', retries=0)
        work()
        failure = qless.get("a").failure
        assert failure.group == "bad-arguments"
        assert SECRET not in failure.message


class TestWhereTheCodeIsNotKnown:
    """A job says itself what of it is sensitive."""

    def test_arguments_and_result(self, qless) -> None:
        for handle, (args, kwargs) in (
            (secret.sign_in.delay("ann", SECRET), (["ann", HIDDEN], {})),
            (
                secret.sign_in.delay("ann", password=SECRET),
                (["ann"], {"password": HIDDEN}),
            ),
            (secret.whisper.delay("a", b="c"), ([HIDDEN], {"b": HIDDEN})),
        ):
            seen = json.loads(redact("renamed.since", handle.data).text)
            assert (seen.get("args", []), seen.get("kwargs", {})) == (args, kwargs)
            assert SECRET not in redact("renamed.since", handle.data, indent=None).text
        assert may_show_result("renamed.since", secret.sign_in.delay("a", "b").data)
        assert not may_show_result("renamed.since", secret.charge.delay(1).data)
        assert not may_show_result("renamed.since", secret.whisper.delay().data)

    def test_what_was_sensitive_once_stays_hidden(self) -> None:
        put_once = (
            '{"v":1,"s":[0,"secret","return"],"args":["a"],"kwargs":{"secret":1}}'
        )
        redacted = redact(secret.open_one.name, put_once)
        assert json.loads(redacted.text)["args"] == [HIDDEN]
        assert json.loads(redacted.text)["kwargs"] == {"secret": HIDDEN}
        assert redacted.hidden == ("argument 1", "secret")
        assert not may_show_result(secret.open_one.name, put_once)

    def test_a_job_enqueued_before_it_was_declared(self) -> None:
        old = '{"v":1,"args":["ann","hunter2"]}'
        assert json.loads(redact(secret.sign_in.name, old).text)["args"][1] == HIDDEN

    @pytest.mark.parametrize("mark", ["5", '"x"', "{}", "false"])
    def test_a_mark_that_is_none_hides_everything(self, mark) -> None:
        text = f'{{"v":1,"s":{mark},"args":["a"],"kwargs":{{"b":1}}}}'
        seen = json.loads(redact("somebody.elses", text).text)
        assert (seen["args"], seen["kwargs"]) == ([HIDDEN], {"b": HIDDEN})
        assert not may_show_result("somebody.elses", text)

    def test_places_that_there_are_not(self) -> None:
        text = '{"v":1,"s":[7,-1,"x",null,[],""],"args":["a"]}'
        assert redact("somebody.elses", text).hidden == ()


class TestWhatMayBeShown:
    @pytest.mark.parametrize(
        ("data", "result", "output", "payloads"),
        [
            ("", True, True, True),
            ("[1]", True, True, True),
            ('{"v":1,"args":[1]}', True, True, True),
            ('{"v":1,"s":[0],"args":[1]}', True, False, False),
            # It names a place that is none: nothing is hidden, but the code was of a mind.
            ('{"v":1,"s":[7],"args":[1]}', True, True, False),
            ('{"v":1,"s":["return"],"args":[1]}', False, False, False),
            ('{"v":1,"s":true}', False, False, False),
            # No key opens these: what is in them is unknown.
            ('"qless:zlib:bm90aGluZw=="', False, False, False),
            ('"qless:fernet:bm90aGluZw=="', False, False, False),
        ],
    )
    def test_it_depends_on_the_mark_in_the_data(
        self, data: str, result: bool, output: bool, payloads: bool
    ) -> None:
        klass = "renamed.since"
        assert may_show_result(klass, data) is result
        assert may_show_output(klass, data) is output
        assert may_show_payloads(klass, data) is payloads

    def test_it_depends_on_the_code_as_well(self) -> None:
        data = '{"v":1}'
        for function, *expected in (
            (secret.sign_in, True, False),
            (secret.charge, False, False),
            (secret.whisper, False, False),
            (secret.open_one, True, True),
        ):
            shown = [
                may(function.name, data) for may in (may_show_result, may_show_payloads)
            ]
            assert shown == expected

    def test_what_no_key_opens_says_so(self) -> None:
        for text in ('"qless:zlib:bm90aGluZw=="', '"qless:fernet:bm90aGluZw=="'):
            redacted = redact("renamed.since", text)
            assert redacted.hidden == ("data",)
            assert json.loads(redacted.text) == SEALED_NOW

    def test_text_that_is_none_can_be_shown(self) -> None:
        """Another program may have written half of a surrogate pair."""
        for indent in (None, 2):
            text = redact("somebody.elses", '["\\ud800"]', indent=indent).text
            assert "ud800" in text.encode().decode()


class TestWhatItLeavesAlone:
    def test_other_jobs_carry_no_mark(self, qless) -> None:
        assert secret.open_one.delay("a").data == '{"v":1,"args":["a"]}'

    def test_unique_keys_are_those_of_the_arguments(self, qless) -> None:
        first = secret.whisper_once.delay("a")
        assert secret.whisper_once.delay(word="a").jid == first.jid
        assert secret.whisper_once.delay("b").jid != first.jid

    def test_tests_see_the_arguments(self, qless) -> None:
        with captured_jobs() as jobs:
            secret.sign_in.delay("ann", SECRET)
        assert jobs.only.args == ["ann", SECRET]
        assert SECRET in repr(jobs)


class TestCommands:
    def test_show_and_list(self, qless, work) -> None:
        handle = secret.charge.delay(5, card="4111")
        for output in (
            run("qless_jobs", "show", handle.jid),
            run("qless_jobs", "list", "--json"),
        ):
            assert HIDDEN in output
            assert "4111" not in output
        work()
        assert data("qless_jobs", "show", handle.jid)["result"] == HIDDEN
        assert "4111" not in run("qless_jobs", "show", handle.jid)
        assert handle.result() == {"amount": 5, "card": "4111"}

    def test_nothing_is_changed_in_what_may_be_shown(self, qless) -> None:
        handle = secret.open_one.delay("a")
        assert data("qless_jobs", "show", handle.jid)["data"] == handle.data


class TestLog:
    def test_nobody_finds_it_behind_a_failure(self, qless, each_work, caplog) -> None:
        """Not in the line, nor in the variables of the exception's frames."""
        secret.turn_away.delay("ann", SECRET)
        assert each_work() == 1
        [record] = [r for r in caplog.records if r.name == "django_qless.worker"]
        assert record.levelname == "ERROR"
        assert "PermissionError: ann may not" in record.getMessage()
        report = ExceptionReporter(None, *(record.exc_info or (None, None, None)))
        assert SECRET not in report.get_traceback_html() + caplog.text


class TestSchedules:
    def test_dynamic_schedules(self, qless, work) -> None:
        recurring = secret.sign_in.recur("ann", SECRET, every=3600)
        there = recurring.refresh()
        assert arguments_shown(there) == (["ann", HIDDEN], {})
        assert arguments_shown(there.run()) == (["ann", HIDDEN], {})

    def test_those_that_need_a_tick_in_python(self, qless, work) -> None:
        recurring = secret.sign_up.recur("ann", SECRET, every=3600)
        record = qless.schedule_get(recurring.id)
        assert record.klass.endswith(":tick")
        assert SECRET in record.data
        for klass in (record.klass, "renamed.since"):
            assert SECRET not in redact(klass, record.data).text
        # Made before it was declared: no mark, but the code knows.
        unmarked = record.data.replace('"s":[0],', "")
        assert unmarked != record.data
        assert SECRET not in redact(record.klass, unmarked).text
        tick = recurring.refresh().run()
        work()
        assert not redact(tick.name, tick.refresh().data).text.count(SECRET)
        for put in qless.multiget(qless.completed(0, 10)):
            assert SECRET not in redact("renamed.since", put.data).text


class TestEditing:
    def test_what_is_left_hidden_gets_its_value_back(self, qless) -> None:
        handle = secret.sign_in.delay("ann", SECRET)
        text = redact(handle.name, handle.data).text.replace("ann", "bob")
        edited = restore_hidden(handle.name, text, handle.data)
        assert json.loads(edited)["args"] == ["bob", SECRET]

    def test_what_is_changed_is_changed(self, qless) -> None:
        handle = secret.charge.delay(5, card="4111")
        text = redact(handle.name, handle.data).text.replace(HIDDEN, "4222")
        edited = json.loads(restore_hidden(handle.name, text, handle.data))
        assert edited["kwargs"] == {"card": "4222"}

    def test_the_text_for_hidden_elsewhere_is_a_text(self, qless) -> None:
        handle = secret.sign_in.delay("ann", SECRET)
        text = redact(handle.name, handle.data).text.replace("ann", HIDDEN)
        edited = restore_hidden(handle.name, text, handle.data)
        assert json.loads(edited)["args"] == [HIDDEN, SECRET]

    def test_fewer_arguments(self, qless) -> None:
        handle = secret.sign_in.delay("ann", SECRET)
        edited = restore_hidden(handle.name, '{"v":1,"args":["ann"]}', handle.data)
        assert json.loads(edited) == {"v": 1, "args": ["ann"], "s": [1]}

    def test_the_mark_cannot_be_taken_away(self, qless) -> None:
        handle = secret.sign_in.delay("ann", SECRET)
        for text in (
            f'{{"v":1,"args":["ann","{HIDDEN}"]}}',
            f'{{"v":1,"s":[],"args":["ann","{HIDDEN}"]}}',
            f'{{"s":[0],"args":["ann","{HIDDEN}"]}}',
            f'{{"v":1,"args":["{HIDDEN}","{HIDDEN}","{HIDDEN}"]}}',
        ):
            edited = restore_hidden("renamed.since", text, handle.data)
            assert SECRET in edited
            assert SECRET not in redact("renamed.since", edited).text

    def test_what_is_hidden_whole(self, qless) -> None:
        handle = secret.Safe.delay([SECRET])
        text = redact(handle.name, handle.data).text
        assert restore_hidden(handle.name, text, handle.data) == handle.data
        assert restore_hidden(handle.name, '["new"]', handle.data) == '["new"]'

    def test_members_of_a_class_jobs_data(self, qless) -> None:
        handle = secret.Vault.delay(pin=SECRET, note="a")
        text = redact(handle.name, handle.data).text.replace('"a"', '"b"')
        edited = restore_hidden(handle.name, text, handle.data)
        assert json.loads(edited) == {"pin": SECRET, "note": "b"}
        assert restore_hidden(handle.name, '{"note":"c"}', handle.data) == (
            '{"note":"c"}'
        )

    def test_the_row_of_a_method(self, qless) -> None:
        class Patient(models.Model):  # noqa: DJ008
            class Meta:
                app_label = "rows_app"

            @job(sensitive="self")
            def treat(self, how: str) -> None: ...

        patient = Patient(pk=5)
        patient._state.adding, patient._state.db = False, "default"
        handle = patient.treat.delay("gently")
        seen = redact(handle.name, handle.data)
        assert seen.hidden == ("self",)
        assert json.loads(seen.text)["row"] == HIDDEN
        assert json.loads(seen.text)["args"] == ["gently"]
        assert handle.data == restore_hidden(handle.name, seen.text, handle.data)

    def test_a_row_that_is_hidden(self, qless) -> None:
        data = '{"v":1,"row":5,"args":["ann"],"s":["",0]}'
        seen = redact("renamed.since", data)
        assert json.loads(seen.text)["row"] == HIDDEN
        assert seen.hidden == ("row", "argument 1")
        edited = restore_hidden("renamed.since", seen.text, data)
        assert json.loads(edited) == json.loads(data)

    def test_no_json(self) -> None:
        with pytest.raises(ValueError, match="Expecting"):
            restore_hidden("any", "{", "{}")
