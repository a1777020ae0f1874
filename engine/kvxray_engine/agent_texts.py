"""What the demo's agents read and are asked: one system prompt with a tool schema that all share, and a dozen tasks.

Text only. What the agents' tools answer stands in `tool_results`: a seed gives the same conversation each time, and no
two conversations are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from kvxray_engine.tool_results import code_lines, log_lines, metric_rows, reviews, sales_rows, trips

SYSTEM_PROMPT = """You are an agent of Harbour Street, a small team that keeps a shop, its website and its machines \
running. Several agents work side by side on tasks of their own. All of you follow the same rules and may call the \
same tools.

Rules
1. Read the whole task before you answer. If something needed is missing, ask one short question.
2. Say first what you found, then how you know it, then what should be done next. Keep to plain sentences.
3. Numbers carry their unit. Times are given with their zone. Money is given in euros unless the task says otherwise.
4. Never invent a tool result. When a tool fails, say so, and say what you would try instead.
5. Do not repeat the task back. Do not apologise. Do not promise what a later step must show.
6. Anything that deletes, pays, books or publishes needs a confirmation from the person who asked.
7. Private data stays private: no names of customers, no addresses, no card numbers in an answer.

Tools
Call a tool by writing one JSON object on a line of its own: {"tool": NAME, "arguments": {...}}. The result comes back
in the next message. One call at a time.

[
 {"name": "search_logs", "description": "Find lines in the logs of one service.",
  "parameters": {"service": "string", "query": "string", "from": "ISO-8601 time", "to": "ISO-8601 time",
                 "level": "debug | info | warning | error", "limit": "integer, at most 200"}},
 {"name": "run_sql", "description": "Run one SELECT on the reporting database. Read only, 30 seconds at most.",
  "parameters": {"query": "string", "database": "shop | warehouse | web", "max_rows": "integer, at most 1000"}},
 {"name": "read_file", "description": "Read a text file of the repository.",
  "parameters": {"path": "string", "first_line": "integer", "last_line": "integer"}},
 {"name": "find_trips", "description": "Trains, ferries and flights between two places on one day.",
  "parameters": {"from": "string", "to": "string", "date": "ISO-8601 date", "by": "train | ferry | flight | any",
                 "latest_arrival": "time, optional"}},
 {"name": "get_weather", "description": "Forecast for a place, hour by hour for two days, then day by day.",
  "parameters": {"place": "string", "days": "integer, at most 10"}},
 {"name": "stock_level", "description": "How many of an article are in a warehouse, and when more will come.",
  "parameters": {"article": "string", "warehouse": "north | harbour | all"}},
 {"name": "send_draft", "description": "Put a message into the drafts of the person who asked. It is not sent.",
  "parameters": {"to": "string", "subject": "string", "body": "string"}},
 {"name": "metrics", "description": "A time series of one machine or service.",
  "parameters": {"target": "string", "name": "cpu | memory | disk | latency_p50 | latency_p99 | requests | errors",
                 "minutes": "integer, at most 1440", "step_s": "integer"}}
]

An example of a good answer: "The queue stopped at 14:02 UTC, because the disk of mail-2 is full: df shows 0 bytes left
and the log says ENOSPC from that minute on. Next: delete the rotated logs older than 30 days (41 GB). Shall I?"

The shop sells tea, coffee, cups and small kitchen machines. Its website runs as three services (web, orders, mail) on
six machines. The warehouses are called north and harbour. Office hours are 08:00 to 17:00 UTC. Now follow the task."""

SHORT_SYSTEM_PROMPT = """You are an agent of Harbour Street, a small team that keeps a shop and its machines running. \
Say first what you found, then how you know it, then what to do next. Numbers carry their unit. Never invent a result. \
Tools: search_logs(service, query), run_sql(query), read_file(path), find_trips(from, to, date), get_weather(place), \
stock_level(article), metrics(target, name). Call a tool as one line of JSON. The shop sells tea, coffee and cups; its \
website runs as three services on six machines. Now follow the task."""
"""For a tokenizer that needs a token for each byte."""

DataSource = Callable[[Random, int], str]


@dataclass(frozen=True, slots=True)
class Task:
    """What one agent is asked: how it begins, what follows turn by turn, and where `{data}` in it comes from."""

    title: str
    opening: str
    follow_ups: tuple[str, ...]
    data: DataSource

    def turn(self, number: int, rng: Random, lines: int) -> str:
        """The message of turn `number` (0 = the opening), with about `lines` lines of fresh data where it wants any."""
        text = self.opening if number == 0 else self.follow_ups[(number - 1) % len(self.follow_ups)]
        return text.replace("{data}", self.data(rng, lines)) if "{data}" in text else text


TASKS = (
    Task(
        "reads logs",
        "Since lunch customers see an error page about once in fifty requests. Here is what search_logs gave:\n{data}\n"
        "What is going wrong, and where would you look next?",
        (
            "More lines, from the minute before the first error:\n{data}\nDoes this change your mind?",
            "Write the note for the team: three sentences, no blame.",
            "Which alert would have caught this earlier? Give its condition.",
        ),
        log_lines,
    ),
    Task(
        "plans a trip",
        "Two of us must be in Copenhagen on Thursday before noon and home again on Friday night. We like trains, and "
        "one of us does not fly. These trips exist:\n{data}\nPropose a plan with times and the price for both.",
        (
            "The ferry is full. These are left:\n{data}\nWhat now?",
            "What should we pack? It will rain on both days.",
            "Write the plan as a short message to our hosts.",
        ),
        trips,
    ),
    Task(
        "writes SQL",
        "Tables of the shop: orders(id, customer_id, placed_at, state), lines(order_id, article_id, pieces, price), "
        "articles(id, name, group_name). We want the ten articles whose sales fell most from last quarter to this one. "
        "A sample of what we sell:\n{data}\nWrite the query, then explain its slowest part.",
        (
            "It takes 40 seconds. The plan shows a full scan of lines. Which index helps, and what does it cost?",
            "Now by article group, and only groups with more than 100 orders.",
            "The result of the query:\n{data}\nWhich article would you stop selling?",
        ),
        sales_rows,
    ),
    Task(
        "watches machines",
        "One of the web machines has been slow since noon. Its metrics:\n{data}\nIs it load, memory or another thing?",
        (
            "And this is its neighbour, which is fine:\n{data}\nWhat differs?",
            "Would one more machine help? Estimate with the numbers above.",
            "Put it into one sentence for the shop's owner, who is no engineer.",
        ),
        metric_rows,
    ),
    Task(
        "reviews code",
        "Please review this function of the orders service before it ships:\n{data}\nName the two worst problems.",
        (
            "The new version:\n{data}\nBetter?",
            "Write one test that fails on the old version.",
            "Is there a simpler way to say the same?",
        ),
        code_lines,
    ),
    Task(
        "answers reviews",
        "These reviews came this week:\n{data}\nGroup them by what people are unhappy about, the most frequent first.",
        (
            "Draft a kind answer to the worst of them.",
            "And these came today:\n{data}\nDoes the order of your groups still hold?",
            "What one change to the shop would please most of these people?",
        ),
        reviews,
    ),
    Task(
        "orders stock",
        "Sales of the last weeks:\n{data}\nThe harbour warehouse holds six weeks of everything, a delivery takes three "
        "weeks. What must be ordered now, and how much of it?",
        (
            "The supplier of the oolong raises the price by 12 percent. Order more now, or less?",
            "Here is what north has sold:\n{data}\nCan we move stock instead of ordering?",
            "Write the order as a table.",
        ),
        sales_rows,
    ),
    Task(
        "explains an outage",
        "The website was down for eleven minutes last night. The log:\n{data}\nWrite the timeline, with times in UTC.",
        (
            "What was the cause, what was only a symptom?",
            "The log of the second machine:\n{data}\nDid it fail first or last?",
            "Name three things that would have made it shorter.",
        ),
        log_lines,
    ),
    Task(
        "writes a recipe",
        "For the newsletter we need an iced tea that uses what we sell most. Sales:\n{data}\nWrite a recipe for four "
        "glasses with amounts in grams and millilitres.",
        (
            "Make it without sugar.",
            "A title, and two sentences that make one thirsty.",
            "How long does it keep, and how should it be stored?",
        ),
        sales_rows,
    ),
    Task(
        "teaches",
        "A new colleague asks why a program can be slow although the processor is idle. Explain it with these "
        "metrics:\n{data}\nUse no word that a student would not know.",
        (
            "Give a comparison from a kitchen.",
            "Ask three questions that show whether it was understood.",
            "Now the same for memory:\n{data}",
        ),
        metric_rows,
    ),
    Task(
        "finds a meeting",
        "Seven people in four cities want to meet for one day in May. They can come by these:\n{data}\nWhich city is "
        "best, counting hours on the way for all of them?",
        (
            "Two of them now live in Oslo. Again, please.",
            "The cheapest choice instead of the quickest? The offers:\n{data}",
            "Write the invitation, short and warm.",
        ),
        trips,
    ),
    Task(
        "cleans up",
        "This module has grown for five years. Its core:\n{data}\nWhat would you take out first, and how would you "
        "know that nothing broke?",
        (
            "Show the first step as a small change.",
            "The part that calls it:\n{data}\nDoes your plan survive this?",
            "What should the commit message say?",
        ),
        code_lines,
    ),
)
