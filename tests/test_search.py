"""Tools are found by what they say: by words, by vectors, by both; only those that one may call."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
from support.retrieval import Tasks

from foreplan import Principal, Registry, Tool, tool
from foreplan.policies.errors import BadInput
from foreplan.registry.search import EmbeddingSearch, Hit, HybridSearch, WordSearch, text_of
from foreplan.registry.words import mentions, terms_of_name, terms_of_prose, terms_of_question


def declared(
    name: str, description: str = "", properties: dict[str, object] | None = None, **options: Any
) -> Tool:
    """A tool that is only looked for."""
    schema = {"type": "object", "properties": properties or {}}
    return Tool.declare(name, description, input_schema=schema, **options)


SHOP = Registry(
    declared("crm.find_customer", "Look a customer up by e-mail.", {"email": {"description": "the address"}}),
    declared("crm.update_customer", "Change what is known of a customer.", permissions=["crm:write"]),
    declared("billing.refund", "Pay money back. Needs the number of the payment.", {"payment_id": {}}),
    declared("billing.list_payments", "All payments of a month.", {"currency": {"enum": ["EUR", "yen"]}}),
    declared("mail.send", "Send a message.", tags=["notification"]),
    declared("files.writeReport", "Write a spreadsheet.", title="Monthly closing"),
)


def found(query: str, k: int = 10, registry: Registry = SHOP) -> list[str]:
    return [each.name for each in registry.search(query, k)]


# ---------------------------------------------------------------------------------------------------------- by words


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("give the money back", "billing.refund"),
        ("look up the customers", "crm.find_customer"),
        ("payments in yen", "billing.list_payments"),
        ("a notification", "mail.send"),
        ("the monthly closing", "files.writeReport"),
        ("make me an xlsx", "files.writeReport"),
        ("store it in /home/ada/figures.xlsx", "files.writeReport"),
        ("which tool takes a currency?", "billing.list_payments"),
        ("write report", "files.writeReport"),
        ("CRM", "crm.find_customer"),
    ],
)
def test_a_tool_is_found_by_anything_that_it_says(query: str, first: str) -> None:
    """Name in any spelling, prefix, description, parameters, their values, tags, title; plurals and kin of words."""
    assert found(query)[0] == first


def test_a_tool_that_is_named_stands_first() -> None:
    """Whatever the other words speak for."""
    assert found("pay money back, then call mail.send")[0] == "mail.send"
    assert found("refund payments of a customer with `files.writeReport`")[0] == "files.writeReport"


def test_what_says_nothing_of_the_words_is_not_found() -> None:
    """A search gives fewer than k rather than anything."""
    assert found("quarks") == []
    assert found("") == []
    assert len(found("customer", k=1)) == 1


def test_equal_scores_are_in_the_order_of_names() -> None:
    """However the registry was filled."""
    same = [declared(name, "Count sheep.") for name in ("c", "a", "b")]
    for tools in (same, same[::-1]):
        assert found("sheep", registry=Registry(*tools)) == ["a", "b", "c"]
        assert found("sheep", k=2, registry=Registry(*tools)) == ["a", "b"]


def test_only_permitted_tools_are_found() -> None:
    """A principal does not even learn that the others exist, and still gets k."""
    ada, bob = Principal(id="ada", permissions=("crm:*",)), Principal(id="bob")
    assert [t.name for t in SHOP.search("change customer", 2, principal=ada)] == [
        "crm.update_customer",
        "crm.find_customer",
    ]
    assert [t.name for t in SHOP.search("change customer", 1, principal=bob)] == ["crm.find_customer"]


def test_tools_that_are_added_later_are_found_too() -> None:
    """What was read before is read anew."""
    registry = Registry(*SHOP)
    assert found("quarks", registry=registry) == []
    registry.add(declared("physics.count", "Count quarks."))
    assert found("quarks", registry=registry) == ["physics.count"]


def test_a_name_of_small_words_can_be_found() -> None:
    """It has no others."""
    registry = Registry(declared("what_now", "Something."), declared("other", "Something."))
    assert found("what now", registry=registry)[0] == "what_now"


def test_a_search_for_nothing_is_a_mistake_of_the_caller() -> None:
    """With a sentence."""
    for query, k in ((None, 5), ("x", 0), ("x", True), ("x", 1.5)):
        with pytest.raises(BadInput, match="a search takes text and how many"):
            SHOP.search(query, k)  # type: ignore[arg-type]


def test_schemas_of_strangers_do_not_break_a_search() -> None:
    """Parameters are read three levels deep, and whatever stands where words should is passed over."""
    deep: dict[str, object] = {"alpha": {"type": "object", "properties": {"beta": {"items": {}}}}}
    odd = Tool.declare(
        "odd", input_schema={"properties": {"gamma": True, "delta": {"enum": [1, None, "epsilon"]}}}
    )
    registry = Registry(declared("deep", "", deep), odd)
    assert [found(word, registry=registry) for word in ("beta", "gamma", "epsilon")] == [
        ["deep"],
        ["odd"],
        ["odd"],
    ]


# ------------------------------------------------------------------------------------------------------------- terms


def test_names_and_prose_become_the_same_terms() -> None:
    """Case, separators, plurals and possessives aside."""
    assert terms_of_name("getRepoStats") == ["repo", "stat", "repostat"]
    assert terms_of_name("HTTPServer_v2") == ["http", "server", "v", "2", "httpserver", "serverv", "v2"]
    assert terms_of_prose("The customer's GitHub repositories, via get_repo") == [
        "customer",
        "github",
        "repository",
        "repo",
    ]
    assert terms_of_prose("Crêpes für Ada’s Gäste") == ["crepe", "fur", "ada", "gaste"]
    assert terms_of_prose("天気予報") == ["天気", "気予", "予報"]


def test_of_paths_and_keys_only_what_speaks_is_kept() -> None:
    """The folders of a path, and files in base64, are no words."""
    assert terms_of_question("Read /home/ada/report.xlsx") == ["read", "file", "report", "xlsx"]
    assert terms_of_question(f"image {'iVBORw0KGgo' * 9}") == ["image"]
    assert terms_of_question("see https://example.com/a-page") == ["url", "example", "com", "page"]


def test_an_ordinary_word_names_a_tool_only_in_quotes() -> None:
    """Or where it is all there is."""
    names = ["fetch", "crm.find", "sendMail"]
    assert mentions("fetch the page with crm.find.", names) == ["crm.find"]
    assert mentions("use `fetch` and sendMail", names) == ["fetch", "sendMail"]
    assert mentions("fetch", names) == ["fetch"]


# ----------------------------------------------------------------------------------------------------------- vectors


MEANING = {"money": 0, "refund": 0, "pay": 0, "back": 0, "customer": 1, "client": 1, "mail": 2, "message": 2}


class Embedder:
    """Counts words that mean the same in one of three dimensions, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def __call__(self, texts: list[str]) -> list[list[float]]:
        self.asked.append(texts)
        return [self.vector(text) for text in texts]

    def vector(self, text: str) -> list[float]:
        counted = [0.0, 0.0, 0.0]
        for word in text.lower().replace(".", " ").split():
            if word in MEANING:
                counted[MEANING[word]] += 1
        return counted


def test_vectors_find_what_means_the_same() -> None:
    """`client` is in no tool. Equal and empty vectors are in the order of names."""
    search = EmbeddingSearch(Embedder())
    assert [t.name for t in SHOP.search("our client", 2, search=search)] == [
        "crm.find_customer",
        "crm.update_customer",
    ]
    ranked = search.over(list(SHOP)).rank("client", 10)
    assert math.isclose(ranked[0].score, 1.0)
    assert [hit.tool.name for hit in ranked if hit.score == 0] == sorted(
        hit.tool.name for hit in ranked if hit.score == 0
    )


def test_vectors_are_asked_for_once() -> None:
    """All tools in one question; then only what is new, here and in other registries."""
    embed = Embedder()
    search = EmbeddingSearch(embed)
    SHOP.search("a", search=search)
    SHOP.search("b", search=search)
    assert [len(texts) for texts in embed.asked] == [6, 1, 1]
    (SHOP | Registry(declared("new", "New."))).search("c", search=search)
    assert [len(texts) for texts in embed.asked] == [6, 1, 1, 1, 1]


def test_a_text_for_vectors_says_what_the_tool_is() -> None:
    """Name in words, title, description, tags, parameters."""
    assert text_of(SHOP["billing.refund"]) == (
        "billing refund. Pay money back. Needs the number of the payment. takes payment_id"
    )


@pytest.mark.parametrize(
    ("vectors", "said"),
    [
        ([[1.0]], "was given 6 texts and gave 1 vectors"),
        ([[1.0]] * 5 + [[1.0, 2.0]], "different sizes: 1, 2"),
        ([[math.nan]] * 6, "not finite"),
    ],
)
def test_an_embedder_that_gives_nonsense_is_told_so(vectors: list[list[float]], said: str) -> None:
    """Rather than tools in some order."""
    with pytest.raises(BadInput, match=said):
        SHOP.search("x", search=EmbeddingSearch(lambda texts: vectors))


def test_no_tools_need_no_vectors() -> None:
    """An empty registry asks nothing."""
    embed = Embedder()
    assert Registry().search("x", search=EmbeddingSearch(embed)) == []
    assert embed.asked == []


@pytest.mark.proof
def test_a_real_model_finds_what_no_word_says() -> None:
    """all-MiniLM-L6-v2, as a package carries it: requests in other words than the tools', by vectors and by both."""
    from support.minilm import embedder

    try:
        embed = embedder()
    except ImportError as error:
        pytest.skip(f"the small model is not installed: {error}")
    tools = Registry(
        declared("weather.forecast", "Predict temperature and rain for a city."),
        declared("billing.refund", "Return a payment to the buyer."),
        declared("calendar.book", "Schedule a meeting."),
        declared("files.remove", "Delete a document."),
        declared("hr.list_staff", "List employees."),
        declared("travel.flights", "Find plane tickets."),
        declared("text.translate", "Translate a text into another language."),
        declared("health.symptoms", "Tell which illness fits some symptoms."),
    )
    meant = {
        "do I need an umbrella tomorrow": "weather.forecast",
        "give a client the money back": "billing.refund",
        "arrange an appointment with Bob": "calendar.book",
        "throw away the old contract": "files.remove",
        "who works here": "hr.list_staff",
        "I want to fly to Lima": "travel.flights",
        "say this in French": "text.translate",
        "I have a fever and a cough": "health.symptoms",
    }
    vectors = EmbeddingSearch(embed)
    by_vectors = [tools.search(asked, 1, search=vectors)[0].name == tool for asked, tool in meant.items()]
    both = HybridSearch(WordSearch(), vectors)
    by_both = [tool in [t.name for t in tools.search(asked, 3, search=both)] for asked, tool in meant.items()]
    by_words = [tool in [t.name for t in tools.search(asked, 3)] for asked, tool in meant.items()]
    assert sum(by_vectors) >= 7
    assert all(by_both)
    assert sum(by_words) <= 4


# ------------------------------------------------------------------------------------------------------------ hybrid


class Fixed:
    """Finds these names, in this order."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def over(self, tools: Sequence[Tool]) -> Fixed:
        self.tools = {each.name: each for each in tools}
        return self

    def rank(self, query: str, k: int) -> list[Hit]:
        return [Hit(self.tools[name], 1.0) for name in self.names][:k]


def test_what_both_find_stands_before_what_one_finds() -> None:
    """Reciprocal ranks add up; one's own scale does not matter, and ties are in the order of names."""
    both = HybridSearch(Fixed("mail.send", "billing.refund"), Fixed("crm.find_customer", "billing.refund"))
    assert [t.name for t in SHOP.search("x", search=both)] == [
        "billing.refund",
        "crm.find_customer",
        "mail.send",
    ]
    assert [t.name for t in SHOP.search("x", 1, search=both)] == ["billing.refund"]


def test_words_and_vectors_together() -> None:
    """Each finds what the other cannot."""
    both = HybridSearch(WordSearch(), EmbeddingSearch(Embedder()))
    assert {t.name for t in SHOP.search("client payments", 3, search=both)} >= {
        "billing.list_payments",
        "crm.find_customer",
    }


# ---------------------------------------------------------------------------------------------------- public data


def tasks_of(name: str) -> Tasks:
    if not Tasks.there(name):
        pytest.skip(f"the public data are not beside the project: {name}")
    return Tasks(name)


@pytest.mark.parametrize(
    ("name", "k", "least"), [("sealtools_retrieval", 10, 0.90), ("livemcpbench_retrieval", 5, 0.36)]
)
def test_words_find_the_tools_of_public_requests(name: str, k: int, least: float) -> None:
    """The recall that is promised, on all requests of two data sets."""
    tasks = tasks_of(name)
    assert tasks.recall(lambda query: tasks.registry.search(query, k), [k])[k] >= least


def test_a_search_is_the_same_in_every_registry_of_the_same_tools() -> None:
    """The order in which tools were added leaves no trace, so a prompt that is made of it can be cached."""
    tools = list(SHOP)
    assert all(
        found("customer payments", registry=Registry(*tools[n:], *tools[:n])) == found("customer payments")
        for n in range(6)
    )


@tool(effect="reads")
def plain(word: str) -> str:
    """Utter a word."""
    return word


def test_tools_made_of_functions_are_found_too() -> None:
    """As those that are declared."""
    assert Registry(plain).search("which tool says a word?") == [plain]
