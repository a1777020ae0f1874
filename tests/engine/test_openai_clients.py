"""Many clients at once, and clients that hang up: nobody's answer changes, and no block stays behind."""

import asyncio
import threading

import openai
import pytest
from kvxray_engine.waiting_line import SchedulingPolicy

from tests.engine.openai_rig import MODEL, Rig, until


def wanted(number: int, **more) -> dict:
    prompt = "All of us read this first, and then a line of our own. " + f"Line {number % 7}."
    return {"model": MODEL, "prompt": prompt, "max_tokens": 12, "seed": number, "temperature": 0.9} | more


async def answers(rig: Rig, numbers: range, **more) -> list[str]:
    async with rig.async_client() as client:

        async def one(number: int) -> str:
            if number % 2:
                return (await client.completions.create(**wanted(number, **more))).choices[0].text
            stream = await client.completions.create(**wanted(number, **more), stream=True)
            return "".join([choice.text async for chunk in stream for choice in chunk.choices])

        return await asyncio.gather(*map(one, numbers))


def test_fifty_at_once_get_what_each_would_get_alone() -> None:
    with Rig(num_blocks=129, max_num_seqs=16, max_num_batched_tokens=128) as rig:
        together = asyncio.run(answers(rig, range(50)))
        with rig.client() as client:
            alone = [client.completions.create(**wanted(number)).choices[0].text for number in range(50)]
        assert together == alone
        assert len(set(together)) > 30
        until(rig.is_idle)
        assert rig.server.front.num_open == 0


def test_twenty_that_hang_up_in_the_middle_hold_no_block_two_steps_later() -> None:
    with Rig(num_blocks=257, stepped=True, max_num_seqs=32) as rig, rig.client() as client:
        streams = [client.completions.create(**wanted(n, max_tokens=500), stream=True) for n in range(20)]
        rig.step(4)
        for stream in streams:
            next(iter(stream))
        assert len(rig.engine.scheduler.running) == 20
        assert rig.held_blocks > 20
        for stream in streams:
            stream.close()
        until(lambda: rig.server.front.num_open == 0)
        rig.step(2)
        assert rig.held_blocks == 0
        assert not rig.engine.has_work


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_hangs_up_before_its_first_token_holds_nothing(stream: bool) -> None:
    with Rig(stepped=True) as rig:
        client = rig.client().with_options(timeout=2)

        def ask() -> None:
            with pytest.raises(openai.APITimeoutError):
                list(client.completions.create(**wanted(0), stream=stream))

        asking = threading.Thread(target=ask)
        asking.start()
        until(lambda: rig.server.front.num_open == 1)
        asking.join()
        client.close()
        until(lambda: rig.server.front.num_open == 0)
        rig.step(2)
        assert rig.is_idle()


def test_one_that_hangs_up_leaves_the_others_their_answers() -> None:
    with Rig(stepped=True) as rig, rig.client() as client:
        leaving, staying = (client.completions.create(**wanted(n, max_tokens=6), stream=True) for n in (1, 2))
        rig.step(2)
        next(iter(leaving))
        leaving.close()
        until(lambda: rig.server.front.num_open == 1)
        rig.step(6)
        assert "".join(choice.text for chunk in staying for choice in chunk.choices)
        assert rig.is_idle()


def test_four_choices_of_one_client_end_together_when_it_hangs_up() -> None:
    with Rig(stepped=True) as rig, rig.client() as client:
        stream = client.completions.create(**wanted(1, n=4, max_tokens=100), stream=True)
        rig.step(3)
        assert len(rig.engine.scheduler.running) == 4
        next(iter(stream))
        stream.close()
        until(lambda: rig.server.front.num_open == 0)
        rig.step(2)
        assert rig.is_idle()


def test_a_stop_string_frees_the_blocks_and_counts_as_finished() -> None:
    with Rig(stepped=True) as rig, rig.client() as client:
        stream = client.completions.create(**wanted(1, temperature=0, max_tokens=30), stream=True)
        rig.step(30)
        text = "".join(choice.text for chunk in stream for choice in chunk.choices)
        stream = client.completions.create(**wanted(1, temperature=0, max_tokens=500, stop=text[:2]), stream=True)
        rig.step(8)
        until(lambda: rig.server.front.num_open == 0)
        rig.step(2)
        assert rig.is_idle()
        assert 'vllm:request_success_total{model_name="tiny",engine="0",finished_reason="stop"} 1.0' in (
            rig.server.metrics.text()
        )


def test_a_server_that_closes_ends_the_answers_under_way() -> None:
    with Rig(stepped=True) as rig, rig.client() as client:
        stream = client.completions.create(**wanted(1, max_tokens=500), stream=True)
        rig.step(2)
        closing = threading.Thread(target=rig.server.close)
        closing.start()
        with pytest.raises(openai.APIError):
            list(stream)
        closing.join()


def test_the_more_urgent_is_served_first() -> None:
    with Rig(stepped=True, policy=SchedulingPolicy.priority, max_num_seqs=1) as rig, rig.client() as client:
        streams = [
            client.completions.create(**wanted(n, max_tokens=3), stream=True, extra_body={"priority": priority})
            for n, priority in ((1, 5), (2, -5), (3, 0))
        ]
        ended: list[int] = []
        while len(ended) < 3:
            rig.step()
            running = {request.priority for request in rig.engine.scheduler.requests()}
            ended += [priority for priority in (5, -5, 0) if priority not in running and priority not in ended]
        assert ended == [-5, 0, 5]
        assert all(list(stream) for stream in streams)
