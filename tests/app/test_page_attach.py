"""The attach page in a real browser: a form, a test of the connection, refusals beside the fields they are about."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from typing import Any

import pytest
from kvxray_app.components.attach import ROLES, attach_words
from kvxray_app.components.attach_makes import ATTACHABLE
from kvxray_app.components.fleet import MAKES
from kvxray_backend.observed.spec import Make as SpecMake
from kvxray_backend.observed.spec import ObserveSpec, Role
from playwright.sync_api import Page, expect
from streamlit.testing.v1 import AppTest

from tests.app.attach_answers import found
from tests.app.fleet_answers import fleet_answer, fleet_engine
from tests.app.scripted_backend import ScriptedBackend

pytestmark = pytest.mark.browser

Mount = Callable[..., None]


@pytest.fixture
def form(page: Page, backend: ScriptedBackend, mount: Mount) -> Page:
    backend.answers["engines"] = fleet_answer()
    backend.answers["engines/test"] = found()
    mount("attach", wait=False, attach=attach_words())
    return page


def field(form: Page, name: str) -> Any:
    return form.locator(f"#attach-{name}")


def press(form: Page, name: str) -> None:
    form.get_by_role("button", name=name, exact=True).click()


def sent(backend: ScriptedBackend) -> dict[str, Any]:
    """The last description that was sent; one that the backend takes."""
    _, _, body = backend.sent[-1]
    assert ObserveSpec.model_validate(body)
    return dict(body)


def result(form: Page) -> str:
    return form.get_by_role("region", name="What was found").inner_text()


def test_a_test_sends_what_was_typed_and_shows_what_was_found_by_certainty(
    form: Page, backend: ScriptedBackend
) -> None:
    field(form, "events").fill(" tcp://10.2.3.4:5557 ")
    field(form, "replay").fill("tcp://10.2.3.4:5558")
    field(form, "ranks").fill("2")
    field(form, "labels").fill("node=gpu-7, namespace=prod")
    press(form, "Test the connection")
    expect(form.locator(".verdict")).to_have_text("3 batches of vLLM's events were heard.")
    assert sent(backend) == {
        "name": "vllm-5557", "make": "vllm", "events": "tcp://10.2.3.4:5557", "replay": "tcp://10.2.3.4:5558",
        "ranks": 2, "role": "both", "labels": {"node": "gpu-7", "namespace": "prod"}, "store_semantics": "unknown",
    }  # fmt: skip
    events = form.locator("[data-part=events]").inner_text()
    for told in ("vLLM 0.24 and later", "16 tokens", "GPU", "full attention", "answers"):
        assert told in events
    for certainty, labels in {
        "exact": ["Cached blocks", "Chains"],
        "derived": ["Age"],
        "not_observable": ["Leaks"],
    }.items():
        assert form.locator(f".coverage[data-certainty={certainty}] dt").all_inner_texts() == labels
    assert "Its events do not tell who holds a block." in result(form)


def test_what_was_found_is_told_to_be_old_once_something_else_is_typed(form: Page) -> None:
    field(form, "events").fill("tcp://10.2.3.4:5557")
    press(form, "Test the connection")
    expect(form.locator(".verdict")).to_be_visible()
    assert form.locator(".result[data-old]").count() == 0
    field(form, "events").fill("tcp://10.2.3.4:6000")
    assert form.locator(".result[data-old]").count() == 1
    press(form, "Test the connection")
    expect(form.locator(".result[data-old]")).to_have_count(0)


def test_nothing_is_sent_of_what_cannot_be(form: Page, backend: ScriptedBackend) -> None:
    press(form, "Attach")
    assert field(form, "events").get_attribute("aria-invalid") == "true"
    assert "Say where its events are" in form.locator("[data-field=events]").inner_text()
    assert form.evaluate("inside('attach', ':focus').id") == "attach-events"
    field(form, "events").fill("tcp://h:1")
    field(form, "labels").fill("node")
    field(form, "ranks").fill("two")
    press(form, "Test the connection")
    assert "“node” is none" in form.locator("[data-field=labels] .problem").inner_text()
    assert "“two” is none" in form.locator("[data-field=ranks] .problem").inner_text()
    assert field(form, "events").get_attribute("aria-invalid") is None
    assert backend.sent == []


@pytest.mark.parametrize(
    ("status", "body", "beside"),
    [
        (400, {"error": "tcp://h has no port.", "field": "events"}, "events"),
        (409, {"error": "There is an engine 'h' already; give this one another name."}, "name"),
        (422, {"error": "Mend labels: too many."}, "labels"),
        (400, {"error": "There are 256 engines already."}, None),
        (400, {"error": "Blocks cannot be so many.", "field": "num_blocks"}, "num_blocks"),
    ],
)
def test_a_refusal_stands_beside_the_field_it_is_about(
    form: Page, backend: ScriptedBackend, status: int, body: dict[str, str], beside: str | None
) -> None:
    backend.refusals["engines"] = (status, body)
    field(form, "events").fill("tcp://h:1")
    press(form, "Attach")
    expect(form.locator(".result b")).to_have_text("It was refused")
    place = f"[data-field={beside}] .problem" if beside else "form > .problem"
    expect(form.locator(place)).to_have_text(body["error"])
    expect(form.locator(place)).to_be_visible()
    assert form.locator("[aria-invalid]").count() == (1 if beside else 0)
    assert form.get_by_role("button", name="Attach", exact=True).is_enabled()


def test_without_a_backend_nothing_was_refused_and_what_was_typed_stays(form: Page) -> None:
    field(form, "events").fill("tcp://h:1")
    form.route("**/api/engines", lambda route: route.abort())
    press(form, "Attach")
    expect(form.locator(".result")).to_contain_text("No answer")
    expect(form.locator("form > .problem")).to_have_text("The backend does not answer.")
    expect(field(form, "events")).to_have_value("tcp://h:1")
    expect(form.get_by_role("button", name="Attach", exact=True)).to_be_enabled()


def test_once_attached_it_leads_to_the_live_page_and_the_fleet(form: Page, backend: ScriptedBackend) -> None:
    backend.answers["engines"] = fleet_answer(fleet_engine("pod-7"))
    field(form, "metrics").fill("http://pod-7.svc:8000/metrics")
    press(form, "Attach")
    live = form.get_by_role("link", name="Open its live page")
    expect(live).to_be_focused()
    assert live.get_attribute("href") == f"{backend.url}/?source={sent(backend)['name']}"
    assert form.get_by_role("link", name="See all engines").get_attribute("href") == f"{backend.url}/fleet"


def test_a_name_is_suggested_from_the_address_and_keeps_clear_of_those_that_are_taken(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    backend.answers["engines"] = fleet_answer(fleet_engine("pod-7"), fleet_engine("vllm-5557"))
    mount("attach", wait=False, attach=attach_words())
    page.wait_for_function("inside('attach', '#attach-name').placeholder === 'vllm'")
    for address, name in {
        "tcp://pod-7.svc:5557": "pod-7-2",
        "tcp://10.0.0.1:5557": "vllm-5557-2",
        "tcp://[::1]:5559": "vllm-5559",
        "tcp://localhost:1": "vllm-1",
        "nonsense": "vllm",
    }.items():
        field(page, "events").fill(address)
        page.wait_for_function("name => inside('attach', '#attach-name').placeholder === name", arg=name)


def test_each_make_says_what_to_switch_on_and_has_the_fields_it_can_have(form: Page, backend: ScriptedBackend) -> None:
    for make in ATTACHABLE:
        form.get_by_text(MAKES[make.key], exact=True).click()
        code = form.locator(".to-copy code").all_inner_texts()
        assert code == [step.text for step in make.steps if step.text]
        assert field(form, "events").is_visible() == bool(make.events)
        assert field(form, "ranks").is_visible() == bool(make.replay)
    form.get_by_text("Router", exact=True).click()
    press(form, "Attach")
    assert form.evaluate("inside('attach', ':focus').id") == "attach-metrics"
    field(form, "metrics").fill("http://router:9090/metrics")
    press(form, "Attach")
    expect(form.locator(".result b")).to_have_text("router is attached")
    assert sent(backend)["make"] == "router"


def test_metrics_may_come_from_a_prometheus_with_the_labels_that_choose_the_engine(
    form: Page, backend: ScriptedBackend
) -> None:
    field(form, "metrics").fill("http://h:8000/metrics")
    form.get_by_text("a Prometheus that has them").click()
    assert field(form, "metrics").is_hidden()
    field(form, "prometheus").fill("http://prometheus:9090")
    field(form, "match").fill("pod=vllm-0")
    press(form, "Test the connection")
    expect(form.locator(".verdict")).to_be_visible()
    body = sent(backend)
    assert (body["prometheus"], body["match"]) == ("http://prometheus:9090", {"pod": "vllm-0"})
    assert "metrics" not in body


def test_the_form_works_by_keyboard_alone(form: Page, backend: ScriptedBackend) -> None:
    form.get_by_role("radio", name="vLLM").focus()
    form.keyboard.press("ArrowRight")
    assert form.get_by_role("radio", name="SGLang").is_checked()
    field(form, "events").focus()
    form.keyboard.type("tcp://h.svc:5557")
    form.keyboard.press("Enter")
    expect(form.locator(".verdict")).to_be_visible()
    assert sent(backend)["make"] == "sglang"


def test_what_the_backend_found_is_never_markup(form: Page, backend: ScriptedBackend) -> None:
    evil = "<img src=x onerror=alert(1)>"
    answer = found(sentence=evil, findings=[evil])
    answer["events"]["dialect"] = evil
    backend.answers["engines/test"] = answer
    field(form, "events").fill("tcp://h:1")
    press(form, "Test the connection")
    expect(form.locator(".verdict")).to_have_text(evil)
    assert form.locator("img").count() == 0


def test_what_to_type_at_the_engines_is_what_their_shells_take() -> None:
    for make in ATTACHABLE:
        for step in make.steps:
            if "--kv-events-config" in step.text:
                words = shlex.split(step.text)
                config = json.loads(words[words.index("--kv-events-config") + 1])
                assert config["publisher"] == "zmq"
                assert config["endpoint"] == "tcp://*:5557"


def test_makes_and_roles_are_those_that_the_backend_knows() -> None:
    assert {make.key for make in ATTACHABLE} == set(SpecMake.__args__)  # type: ignore[attr-defined]
    assert set(ROLES) == set(Role.__args__)  # type: ignore[attr-defined]


def test_the_page_draws_itself() -> None:
    def script() -> None:
        from kvxray_app.views.attach import attach

        attach()

    assert not AppTest.from_function(script, default_timeout=90).run().exception


def test_who_comes_from_an_engine_finds_what_is_known_of_it(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    engine = fleet_engine("pod-7", make="sglang", role="prefill", labels={"node": "gpu-7"}, removable=True)
    backend.answers["engines"] = fleet_answer(engine)
    page.evaluate("history.replaceState(null, '', '?source=pod-7')")
    mount("attach", wait=False, attach=attach_words())
    expect(page.locator(".already")).to_contain_text("pod-7 is attached already")
    assert [field(page, name).input_value() for name in ("name", "role", "labels")] == [
        "pod-7",
        "prefill",
        "node=gpu-7",
    ]
    expect(page.get_by_role("radio", name="SGLang")).to_be_checked()


def test_an_engine_of_a_file_gets_its_addresses_there(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    backend.answers["engines"] = fleet_answer(fleet_engine("pod-7", origin="file", removable=False))
    page.evaluate("history.replaceState(null, '', '?source=pod-7')")
    mount("attach", wait=False, attach=attach_words())
    expect(page.locator(".already")).to_contain_text("the file of engines: add its addresses there")
