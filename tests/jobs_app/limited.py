"""Jobs with limits. Only the tests of limits import it: they declare options."""

from __future__ import annotations

from django_qless import job


@job(max_concurrency=2, rate="100/m")
def fetch(url=""):
    return url


@job(concurrency_key="customer")
def charge(customer, amount=0):
    return customer, amount


@job(concurrency_key=lambda customer, number: customer)
def step(customer, number):
    return number


@job(fair_by="tenant", concurrency_key="tenant", rate="5/s")
def report(tenant, n=0):
    return tenant, n


@job(concurrency_key="key", max_concurrency=2)
def pair(key, number):
    return number


@job(concurrency_key=lambda key, number: key, rate="3/h")
def sometimes(key, number):
    return number


def _raising(customer):
    raise KeyError(customer)


@job(concurrency_key=_raising)
def unkeyed(customer):
    return customer
