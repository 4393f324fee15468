"""What cannot be a job is told when it is declared, or by a check, with file and line."""

from __future__ import annotations

import functools
import importlib
import inspect
import itertools
import os
import sys
import textwrap
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import models, transaction

from django_qless import job
from django_qless.checks import jobs as job_checks
from django_qless.conf import in_tests
from django_qless.declare import method
from django_qless.exceptions import InvalidJob, InvalidOption
from django_qless.job_types import discovery, source_location
from django_qless.job_types.registry import registry
from tests.jobs_app import jobs as jobs_module

HERE = "tests/declare/test_bad_jobs.py"
HIDDEN = "is hidden by a decorator above @job"

numbers = itertools.count(1)


def line_of(function: Callable[..., Any]) -> int:
    return inspect.unwrap(function).__code__.co_firstlineno


class TestPlaces:
    def test_functions_methods_and_classes(self) -> None:
        def wrapped() -> None:
            pass

        @functools.wraps(wrapped)
        def wrapper() -> None:
            pass

        line = wrapped.__code__.co_firstlineno
        for thing in (wrapped, wrapper, property(wrapped), functools.partial(wrapper)):
            assert source_location.location_of(thing) == f"{HERE}:{line}"
        line = inspect.findsource(TestPlaces)[1] + 1
        assert source_location.location_of(TestPlaces) == f"{HERE}:{line}"
        assert (
            source_location.location_of(len)
            == source_location.location_of(5)
            == source_location.at(len)
            == ""
        )

    def test_what_has_no_source(self) -> None:
        made = type("Made", (), {"__module__": "no.such.module"})
        assert source_location.location_of(int) == source_location.location_of(made)
        assert source_location.at(made) == ""
        first, second = (
            eval(compile(f"{lines}lambda: 1", "<typed>", "eval"))
            for lines in ("", "\n")
        )
        # Nothing shows that both of them are there at once.
        assert not source_location.both_in_source(first, second)
        assert not source_location.both_in_source(len, len)

    def test_elsewhere_it_is_the_whole_path(self, tmp_path, monkeypatch) -> None:
        monkeypatch.chdir(tmp_path)
        assert source_location.location_of(line_of).startswith("/")

    def test_each_error_of_a_declaration_has_it(self) -> None:
        def function() -> None:
            pass

        place = f"{HERE}:{line_of(function)}: "
        for options, kind in [
            ({"retries": -1}, InvalidOption),
            ({"retrys": 1}, InvalidOption),
            ({"after": ["an-id"]}, InvalidOption),
            ({"after": 5}, InvalidOption),
            ({}, InvalidJob),
        ]:
            with pytest.raises(kind) as caught:
                job(**options)(function) if options else job(function)
            assert str(caught.value).startswith(place)
            assert str(caught.value).count(HERE) == 1


class TestFunctions:
    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: job(lambda: 1), "is a lambda, which has no name"),
            (lambda: job(property(len)), r"builtins\.len is a property"),
            (lambda: job(functools.cached_property(len)), "a property cannot be a job"),
            (lambda: job("x")(5), "is no function"),
            (lambda: job("x")(functools.partial(len)), "is no function"),
            (lambda: job([].append), "is bound to an object"),
            (lambda: job(TestPlaces().test_functions_methods_and_classes), "is bound"),
            (lambda: job(job(name="twice.job")(lambda: 1)), "has @job twice"),
        ],
    )
    def test_what_is_none(self, make, message) -> None:
        with pytest.raises(InvalidJob, match=message):
            make()

    def test_one_that_yields(self) -> None:
        def generator() -> Iterator[int]:
            yield 1

        async def asynchronous() -> Any:
            yield 1

        for function in (generator, asynchronous):
            with pytest.raises(InvalidJob, match="yields; a job returns"):
                job(name="yields")(function)

    def test_handler_of_entities_takes_one_argument(self) -> None:
        def handler(sku: str, payloads: list[int]) -> None: ...

        with pytest.raises(InvalidJob) as caught:
            job(name="handles", entity=True)(handler)
        assert "(sku: 'str', payloads: 'list[int]')" in str(caught.value)
        assert "write def handler(batch)" in str(caught.value)
        assert job("handles", name="handles.all", entity=True)(lambda *batches: None)

    def test_class_has_a_static_method_that_takes_the_job(self) -> None:
        class Nothing:
            queue = "mail"

        class NotStatic:
            def process(self, job: Any) -> None: ...

        class TakesNothing:
            @staticmethod
            def process() -> None: ...

        class Yields:
            @staticmethod
            def process(job: Any) -> Iterator[int]:
                yield 1

        class Inherits(NotStatic):
            @staticmethod
            def send(job: Any) -> None: ...

        Nothing.__qualname__ = "Nothing"
        with pytest.raises(InvalidJob, match=r"no static method[^@]*@staticmethod"):
            job(Nothing)
        # Others run it.
        assert job(name="Shop::Mailer")(Nothing)
        for kind in (NotStatic, TakesNothing, Yields):
            with pytest.raises(InvalidJob, match=r"no static method[^@]*@staticmethod"):
                job(name="mailer")(kind)
            assert "mailer" not in registry
        with pytest.raises(InvalidJob, match=r"has a method process\(self, job"):
            job(name="mailer")(NotStatic)
        assert job(name="inherits")(Inherits)

    def test_a_program_that_was_started(self, monkeypatch) -> None:
        def function() -> None:
            pass

        function.__module__, function.__qualname__ = "__main__", "function"
        main = types.ModuleType("__main__")
        monkeypatch.setitem(sys.modules, "__main__", main)
        with pytest.raises(InvalidJob, match="in the program that was started"):
            job(function)
        assert job(name="main.named")(function).name == "main.named"
        # `python -m shop.jobs` has a name that a worker can import.
        main.__spec__ = types.SimpleNamespace(name="shop.jobs")  # type: ignore[assignment]
        assert job(function).name == "shop.jobs.function"

    def test_two_of_one_name(self) -> None:
        first = job(name="the.same")(_nothing)
        with pytest.raises(InvalidJob) as caught:
            job(name="the.same")(_nothing_either)
        assert f"{HERE}:{line_of(first)}" in str(caught.value)
        assert f"{HERE}:{line_of(_nothing_either)}" in str(caught.value)


def _nothing() -> None:
    pass


def _nothing_either() -> None:
    pass


#: Bodies of models, and the message of the error.
BAD_MODELS = [
    ("@job\ndef act(): ...", r"takes no self: write def act\(self"),
    ("@classmethod\n@job\ndef act(*, cls): ...", r"takes no cls: write def act\(cls"),
    ("@job\ndef digest(cls): ...", r"@classmethod\n    @job\n    def digest"),
    ("@classmethod\n@job\ndef digest(self): ...", "takes self, but as a class method"),
    ("@job\ndef delete(self): ...", r"place of delete, which Django .*_later"),
    (
        "@job(entity=True, batch_size=3)\ndef act(self, payloads): ...",
        "batch_size=3 cannot go with a method of rows",
    ),
    (
        "@job(entity=True)\ndef act(self, sku, payloads): ...",
        r"list of payloads: write def act\(self, payloads\)",
    ),
    (
        "@classmethod\n@job(entity=True)\ndef act(cls): ...",
        r"one dict, .*: write def act\(cls, batch\)",
    ),
    (
        "@staticmethod\n@job(entity=True)\ndef act(sku, payloads): ...",
        r"one dict, .*: write def act\(batch\)",
    ),
    ("@transaction.atomic\n@job\ndef act(self): ...", HIDDEN),
    ("@property\n@job\ndef act(self): ...", HIDDEN),
    ("@functools.cached_property\n@job\ndef act(self): ...", HIDDEN),
    (
        "@job(after='three')\ndef one(self): ...\n"
        "@job(after='one')\ndef two(self): ...\n"
        "@job(after='two')\ndef three(self): ...",
        "cycle: one → three → two → one",
    ),
    (
        "@job\ndef refresh(self, url): ...\n"
        "@job(after='refresh')\ndef parse(self): ...",
        r"enqueued without arguments, but .*'url'",
    ),
    (
        "@job(unique='refresh')\ndef refresh(self): ...\n"
        "@job(after='refresh')\ndef parse(self): ...",
        r"for all rows.* use unique=True",
    ),
]


class TestMethods:
    @pytest.mark.parametrize(("body", "message"), BAD_MODELS)
    def test_what_a_model_cannot_have(self, body: str, message: str) -> None:
        number = next(numbers)
        body = "class Meta:\n    app_label = 'rows_app'\n" + body
        text = f"class Bad{number}(models.Model):\n{textwrap.indent(body, '    ')}"
        with pytest.raises(InvalidJob, match=message):
            exec(text, {**globals()})

    def test_in_the_place_of_a_field(self) -> None:
        class Titled(models.Model):
            title = models.CharField(max_length=5)

            class Meta:
                abstract = True

        class WithJob:
            @job
            def owner_id(self) -> None: ...

        with pytest.raises(
            InvalidJob, match=r"title and a field of rows_app\.Overriding"
        ):

            class Overriding(Titled):  # noqa: DJ008
                class Meta:
                    app_label = "rows_app"

                @job
                def title(self) -> None: ...

        with pytest.raises(
            InvalidJob, match=r"owner_id and a field of rows_app\.Mixed"
        ):

            class Mixed(WithJob, models.Model):  # noqa: DJ008
                owner = models.ForeignKey("rows_app.Note", models.CASCADE)

                class Meta:
                    app_label = "rows_app"

    def test_beside_it_is_fine(self) -> None:
        class Beside(models.Model):  # noqa: DJ008
            class Meta:
                app_label = "rows_app"

            @job
            def act(self) -> None: ...

            safely = transaction.atomic(act)
            quickly = functools.partialmethod(act)

        assert registry.get("rows_app.Beside.act") is not None


class TestAfter:
    def test_a_name_that_is_none(self) -> None:
        with pytest.raises(InvalidJob) as caught:

            class Missing(models.Model):  # noqa: DJ008
                class Meta:
                    app_label = "rows_app"

                @job
                def refresh(self) -> None: ...

                @job(after="refrsh")
                def parse(self) -> None: ...

        message = str(caught.value)
        assert message.startswith(f"{HERE}:")
        assert "rows_app.Missing.parse: after='refrsh': there is no such job" in message
        assert (
            "those of rows_app.Missing are parse, refresh. Did you mean 'refresh'?"
            in message
        )
        assert registry.get("rows_app.Missing.refresh") is None

    def test_a_child_that_takes_a_job_away(self) -> None:
        class Chained(models.Model):
            class Meta:
                abstract = True

            @job
            def refresh(self) -> None: ...

            @job(after="refresh")
            def parse(self) -> None: ...

        with pytest.raises(
            InvalidJob, match=r"refresh of rows_app\.Unchained is no job"
        ):

            class Unchained(Chained):  # noqa: DJ008
                class Meta:
                    app_label = "rows_app"

                def refresh(self) -> None: ...

    def test_full_names_are_judged_by_a_check(self) -> None:
        @job(after="nowhere.at.all", name="after.nothing")
        def function() -> None: ...

        @job(after="circle.two", name="circle.one", unique=True)
        def one() -> None: ...

        @job(after="circle.one", name="circle.two", unique=True)
        def two() -> None: ...

        try:
            found = {each.msg: each for each in job_checks.check_jobs()}
        finally:
            for name in ("after.nothing", "circle.one", "circle.two"):
                del registry._types[name]
        wrong = [text for text, each in found.items() if each.id.endswith("E019")]
        assert len(wrong) == 3
        assert f"{HERE}:{line_of(function)}: after.nothing: after='nowhere.at.all'" in (
            " ".join(wrong)
        )
        assert "circle.two: after= makes a cycle: two → one → two" in " ".join(wrong)


class TestChecks:
    def ids(self) -> list[str]:
        return [message.id.rpartition(".")[2] for message in job_checks.check_jobs()]

    def test_what_the_tests_have(self, monkeypatch) -> None:
        # Tests that ran before have declared some in their own functions.
        of_modules = [
            declaration
            for declaration in method.declared
            if "<locals>" not in declaration.function.__qualname__
        ]
        assert of_modules
        monkeypatch.setattr(method, "declared", of_modules)
        assert self.ids() == []

    def test_a_function_that_is_hidden(self, monkeypatch) -> None:
        module = types.ModuleType("hidden_jobs")
        exec("def act(): ...", vars(module))
        module.act.__module__ = "hidden_jobs"
        monkeypatch.setitem(sys.modules, "hidden_jobs", module)
        module.act = transaction.atomic(job(module.act))  # type: ignore[attr-defined]
        try:
            [message] = [m for m in job_checks.check_jobs() if "E020" in m.id]
        finally:
            del registry._types["hidden_jobs.act"]
        assert "hidden_jobs.act is hidden by a decorator above @job" in message.msg

    def test_a_job_that_a_relation_replaces(self, monkeypatch) -> None:
        # Other tests bind methods of classes that are gone by now.
        bound = next(
            each
            for each in method.bound
            if each.model.__module__ == "tests.rows_app.models"
            and each.attribute in vars(each.model)
        )
        value = vars(bound.model)[bound.attribute]
        setattr(bound.model, bound.attribute, object())
        try:
            [message] = [m for m in job_checks.check_jobs() if "E021" in m.id]
        finally:
            setattr(bound.model, bound.attribute, value)
        assert message.msg.startswith(
            source_location.location_of(bound.job_type.function)
        )
        assert f"related_name '{bound.attribute}'" in message.hint

    def test_a_method_that_nothing_can_be_called_on(self, monkeypatch) -> None:
        monkeypatch.setattr(method, "declared", [])
        module = types.ModuleType("homeless_jobs")
        module.job = job  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)
        text = "class Tools:\n    @job\n    def lost(self): ..."
        exec(compile(text, "homeless_jobs.py", "exec"), vars(module))
        [message] = job_checks.check_jobs()
        assert message.id == "django_qless.W004"
        assert message.msg.startswith(
            "homeless_jobs.py:2: homeless_jobs.Tools.lost cannot be enqueued: no model has it"
        )
        with pytest.raises(InvalidJob, match="nothing on which a worker could call it"):
            module.Tools().lost.delay()

    def test_static_handler_of_entities_that_takes_too_much(self, monkeypatch) -> None:
        module = types.ModuleType("static_jobs")
        module.job = job  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)
        text = (
            "class Stock:\n    @staticmethod\n    @job(entity=True)\n"
            "    def sync(sku, payloads): ..."
        )
        exec(compile(text, "static_jobs.py", "exec"), vars(module))
        with pytest.raises(InvalidJob, match=r"write def sync\(batch\)"):
            job_checks.check_jobs()

    def test_a_schedule_in_a_class_inside_a_function_never_ticks(
        self, monkeypatch
    ) -> None:
        monkeypatch.setattr(method, "declared", [])

        class Local:
            @staticmethod
            @job(every=60)
            def tidy() -> None: ...

        [message] = job_checks.check_jobs()
        assert message.id == "django_qless.W004"
        assert (
            f"{Local.tidy.name} cannot be enqueued, nor by its schedule" in message.msg
        )
        assert "move the class to the module" in message.msg


TWICE = """
from django_qless import job

@job
def send(): ...

@job
def send(): ...
"""


class TestTwice:
    @pytest.fixture
    def load(self, tmp_path, monkeypatch) -> Iterator[Callable[[str], None]]:
        monkeypatch.syspath_prepend(tmp_path)

        def load(text: str) -> None:
            (tmp_path / "twice_jobs.py").write_text(text)
            found = sys.modules.get("twice_jobs")
            if found is None:
                importlib.import_module("twice_jobs")
            else:
                os.utime(tmp_path / "twice_jobs.py", (1, len(text)))
                importlib.reload(found)

        yield load
        sys.modules.pop("twice_jobs", None)
        registry._types.pop("twice_jobs.send", None)

    def test_two_functions_of_one_name_in_a_module_are_refused(self, load) -> None:
        with pytest.raises(InvalidJob, match=r"Two jobs are called 'twice_jobs.send'"):
            load(TWICE)

    def test_a_module_that_was_changed_is_loaded_again(self, load) -> None:
        once = TWICE.rpartition("@job")[0]
        load(once)
        load(f"# A line more.\n{once}")
        assert registry.get("twice_jobs.send").function.__code__.co_firstlineno == 5


class TestUnfound:
    """Jobs that can be enqueued, and that no worker will come to know."""

    @pytest.fixture(autouse=True)
    def not_testing(self, monkeypatch) -> None:
        monkeypatch.setattr(in_tests, "is_testing", lambda: False)
        monkeypatch.setattr(discovery, "warned", set())

    @pytest.fixture
    def strange(self, qless) -> Iterator[Any]:
        def strange() -> None:
            pass

        strange.__module__ = "tests.elsewhere"
        strange.__qualname__ = "strange"
        yield job(strange)
        del registry._types["tests.elsewhere.strange"]

    def test_a_module_that_workers_do_not_import(self, strange, caplog) -> None:
        strange.delay()
        strange.using(priority=1).delay()
        [record] = caplog.records
        assert record.levelname == "WARNING"
        assert record.getMessage().startswith(f"tests.elsewhere.strange ({HERE}:")
        assert (
            "tests.elsewhere is neither one of them nor imported there" in caplog.text
        )
        messages = [m for m in job_checks.check_jobs() if m.id == "django_qless.W005"]
        assert any("tests.elsewhere.strange" in message.msg for message in messages)
        assert not any("jobs_app.jobs" in message.msg for message in messages)

    def test_an_app_that_is_not_installed(self, qless, caplog, settings) -> None:
        settings.INSTALLED_APPS = [
            app for app in settings.INSTALLED_APPS if app != "django_qless"
        ]
        jobs_module.add.delay(1)
        assert "django_qless is not in INSTALLED_APPS" in caplog.text
