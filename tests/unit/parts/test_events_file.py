"""A file of declared events: what is wrong with it is one line, and what it says decides what is drawn and legal."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from staleloc.models.config import SWA, Config
from staleloc.sim.core.choices import seeded
from staleloc.sim.core.divergence import Divergence
from staleloc.sim.core.schema import event_to_json, fits, schema_of
from staleloc.sim.core.tape import Tape, Verdict
from staleloc.sim.declared import Books
from staleloc.sim.findings.explain import steps
from staleloc.sim.findings.finding import Finding, Origin
from staleloc.sim.parts import events_file
from staleloc.sim.parts import hooks as guarding
from staleloc.sim.parts.allocator import events as ev
from staleloc.sim.parts.allocator.generate import generate
from staleloc.sim.parts.allocator.ledger import Ledger
from staleloc.sim.parts.drive import drive
from staleloc.sim.parts.events_file import load, read
from staleloc.sim.parts.generate import generate_tape
from staleloc.sim.parts.hooks import DeclaredError, check_drawn, fingerprint, watched
from staleloc.sim.parts.legality import find_violation
from staleloc.sim.tapes.codec import TapeError, dumps, loads, to_json
from staleloc.sim.tapes.reshape import joined, merged, renumbered, repair, scaled, shortened
from staleloc.sim.tapes.schema import tape_schema
from staleloc.sim.tapes.shrink import shrink
from staleloc.sim.targets.builtin.engine import BuiltinEngine
from staleloc.sim.targets.builtin.target import BuiltinTarget

Load = Callable[[str], Path]

HEAD = "from staleloc.sim.declared import Declared\n"

COMPACT = """
class Compact(Declared):
    '''packs the pool.

    And more.'''

    kind = "compact"

    def call(self, cache):
        pass

    def apply(self, model):
        model.repack()
"""

EVICT = """
class Evict(Declared):
    kind = "evict-head"
    request: int
    start: int
    stop: int

    @classmethod
    def draw(cls, choices, books):
        ready = [request for request in books.requests if all(books.mapped(request))]
        if not ready:
            return None
        request = choices.pick(ready)
        return cls(request, 0, choices.integer(1, books.length(request)))

    def legal(self, books):
        return not books.forward

    def call(self, cache):
        cache.allocator.free_swa(cache.locs(self.request, self.start, self.stop))

    def apply(self, model):
        model.free_swa(self.request, self.start, self.stop)
"""

CONFIG = Config(policy="memo", full_size=4, swa_size=4, layers=(SWA, SWA), window=2)

PROFILE = BuiltinTarget.profiles[0]


@pytest.fixture
def declare(tmp_path: Path) -> Iterator[Load]:
    """Load a file with this text behind the usual import; it is forgotten at the end."""

    def write(text: str) -> Path:
        path = tmp_path / "mine.py"
        path.write_text(HEAD + textwrap.dedent(text), encoding="utf-8")
        load(str(path), "mine.py")
        return path

    yield write
    load(None)


def with_(method: str, text: str = COMPACT) -> str:
    """The class with one more method."""
    return f"{text}\n{textwrap.indent(textwrap.dedent(method), '    ')}"


def play(*events: ev.Event) -> Verdict:
    """The verdict on a tape of these events on the embedded target."""
    return drive(Tape(CONFIG, events), BuiltinTarget(), PROFILE)


def own(**values: int) -> Any:
    """An event of the one class that is loaded."""
    (event,) = guarding.declared().values()
    return event(**values)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("def f(:", "mine.py, line 2: invalid syntax; it is not valid Python"),
        ("x = 1", "mine.py declares no event: a subclass of staleloc.sim.declared.Declared is needed"),
        ("\n1 / 0", "mine.py, line 3: ZeroDivisionError: division by zero"),
        ("raise SystemExit(3)", "mine.py, line 2: SystemExit: 3"),
        ("import no_such_module", "mine.py, line 2: ModuleNotFoundError: No module named 'no_such_module'"),
        ("class A(Declared): pass", "mine.py, class A: kind is None, not a name"),
        (COMPACT.replace('"compact"', '"Compact!"'), "mine.py, class Compact: kind is 'Compact!', not a name"),
        (COMPACT.replace('"compact"', '"free_swa"'), "there is an event 'free_swa' already; give it another kind"),
        (COMPACT.replace('"compact"', '"evict"'), "there is an event 'evict' already"),
        (COMPACT + COMPACT.replace("Compact", "Other"), "class Other: Compact is called 'compact' already"),
        (COMPACT.replace("def call", "def calls"), "class Compact: it has no call()"),
        (COMPACT.replace("def apply", "def applies"), "class Compact: it has no apply()"),
        (with_("level = 'graphs'"), "class Compact: level is 'graphs'; it must be 'allocator' or 'engine'"),
        (with_("level: str = 'engine'"), "level cannot be a parameter"),
        (with_("def say(self): return 'it'"), "class Compact: say is already used by staleloc; choose"),
        (with_("enter: int = 0"), "class Compact: enter is already used by staleloc"),
        (with_("weight = 0"), "weight is 0; it must be an integer from 1 to 1000"),
        (with_("kind: str = 'compact'"), "kind cannot be a parameter"),
        (with_("ratio: float = 0.5"), "field 'ratio': a tape cannot hold <class 'float'>"),
        (with_("request: int"), "it has no draw(), which must choose a value for request"),
        (with_("def draw(cls, choices, books): return cls()"), "draw() must be a @classmethod"),
        (with_("def __post_init__(self): pass"), "it has __post_init__()"),
        ("import dataclasses\n@dataclasses.dataclass" + COMPACT, "is a dataclass already and takes no decorator"),
        (
            "import dataclasses\n@dataclasses.dataclass(frozen=True)" + COMPACT,
            "is a dataclass already and takes no decorator",
        ),
        (with_("items: list = []"), "mine.py, line 3: ValueError: mutable default"),
    ],
)
def test_a_file_that_cannot_be_used_is_told_in_one_line(declare: Load, text: str, told: str) -> None:
    """Whatever is wrong with it; and no event of it is known afterwards."""
    with pytest.raises(DeclaredError) as error:
        declare(text)
    assert told in str(error.value)
    assert "\n" not in str(error.value)
    assert guarding.declared() == {}


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    """A folder and nothing at all are no files."""
    for path in (tmp_path, tmp_path / "no.py"):
        with pytest.raises(DeclaredError, match="no such file; --events takes a Python file"):
            load(str(path))


def test_bases_and_imported_classes_are_no_events(declare: Load) -> None:
    """A class whose name begins with an underscore is there for others."""
    declare(
        COMPACT.replace("Compact", "_Base")
        + "\nclass A(_Base):\n    kind = 'a'\nclass B(_Base):\n    kind = 'b'\nC = B"
    )
    assert list(guarding.declared()) == ["a", "b"]


@pytest.mark.parametrize(
    ("method", "told"),
    [
        ("def legal(self, books): return 1 / 0", "mine.py, line 16, Compact.legal(): ZeroDivisionError"),
        ("def legal(self, books): pass", "Compact.legal(): it returned None, which is neither True nor False"),
        ("def legal(self, books): books.length = 3", "Compact.legal(): it returned None"),
        ("def legal(self): return True", "Compact.legal(): TypeError"),
        ("@classmethod\ndef draw(cls, choices, books): return 5", "Compact.draw(): it returned 5"),
        ("@classmethod\ndef draw(cls, choices, books): return cls.no", "line 17, Compact.draw(): AttributeError"),
        ("n: int = 0\n@classmethod\ndef draw(cls, choices, books): return cls(-1)", "numbers are 0 to 1048576"),
        ("def apply(self, model): raise SystemExit", "line 16, Compact.apply(): SystemExit"),
        ("def apply(self, model): model.free_swa(0, 'a', 2)", "TypeError: free_swa: start is 'a', not an integer"),
        ("def apply(self, model): model.repack(); model.free(0, 0)", "declare freed slots before"),
        ("def apply(self, model): model.repack(); model.repack()", "an event hands out slots in one way only"),
        ("def call(self, cache): cache.allocator.compact()", "'SwaAllocator' object has no attribute 'compact'"),
        ("def call(self): pass", "Compact.call(): TypeError"),
        ("def call(self, cache): cache.tensor('a')", "line 16, Compact.call(): "),
        ("def call(self, cache): raise SystemExit", "line 16, Compact.call(): SystemExit"),
    ],
)
def test_a_mistake_in_a_function_is_told_in_one_line(declare: Load, method: str, told: str) -> None:
    """With the line and the function; it is no divergence of the target."""
    declare(with_(method))
    (event,) = guarding.declared().values()

    def use() -> None:
        drawn = event.drawn(seeded(0, 0), Books(Ledger(CONFIG)))
        assert drawn is not None
        assert drawn.violation(Ledger(CONFIG)) is None
        play(drawn)

    with pytest.raises(DeclaredError) as error:
        use()
    assert str(error.value).startswith("mine.py")
    assert told in str(error.value)
    assert "\n" not in str(error.value)


def test_what_the_engine_raises_is_a_crash_of_the_engine(declare: Load) -> None:
    """The file only called it."""
    declare(with_("def call(self, cache): cache.allocator.set_mapping([99], [1])"))
    divergence = play(ev.Alloc(0, 1), own()).divergence
    assert divergence is not None
    assert divergence.kind == "crash"
    assert divergence.what.startswith("compact raised IndexError")


def test_a_file_that_changes_while_it_is_in_use_is_noticed(declare: Load) -> None:
    """A worker must play what the command has read."""
    path = declare(COMPACT)
    loaded = guarding.loaded()
    assert loaded is not None
    read(loaded.to_json())
    path.write_text(path.read_text() + "\n#", encoding="utf-8")
    with pytest.raises(DeclaredError, match=r"mine\.py was changed while it was in use"):
        read(loaded.to_json())


def test_an_event_of_the_engine_level_need_not_say_what_it_means(declare: Load) -> None:
    """What it did is looked at. At the allocator level it must be said."""
    text = COMPACT.replace("def apply", "def applies")
    declare(with_('level = "engine"', text))
    assert guarding.declared("allocator") == {}
    assert list(guarding.declared("engine")) == ["compact"]


def test_an_event_may_be_drawn_by_the_name_of_its_class(declare: Load) -> None:
    """And not only as `cls`; it is the same event."""
    declare(with_("@classmethod\ndef draw(cls, choices, books): return Compact()"))
    (event,) = guarding.declared().values()
    drawn = event.drawn(seeded(0, 0), Books(Ledger(CONFIG)))
    assert (type(drawn), drawn) == (event, event())


def test_without_a_file_tapes_are_as_before(declare: Load) -> None:
    """The same seed gives the same bytes before one was loaded and after it was forgotten, and others with it."""
    profiles = BuiltinTarget.profiles

    def drawn() -> str:
        return "".join(dumps(generate(seeded(7, index), profiles)) for index in range(20))

    before = drawn()
    declare(COMPACT)
    assert "compact" in drawn()
    load(None)
    assert drawn() == before


def test_a_tape_says_which_file_declares_its_events(declare: Load) -> None:
    """By name and hash. With the file it comes back as it was, without it one line says what to give."""
    declare(EVICT)
    tape = Tape(CONFIG, (ev.Alloc(0, 2), own(request=0, start=0, stop=1)))
    divergence = Divergence("leak", "conservation", 1, "a page is lost")
    written = Finding(Origin("builtin", tape="t"), tape, divergence).documented()
    text = dumps(written)
    assert '"file": "mine.py"' in text
    jsonschema.Draft202012Validator(tape_schema()).validate(to_json(written))
    assert loads(text).events == tape.events
    load(None)
    with pytest.raises(TapeError, match=r"event 2: .*'evict-head' is declared in a file called 'mine.py'; give it"):
        loads(text)
    with pytest.raises(TapeError, match=r"no event is called 'evict-head'"):
        loads(text.replace('"events": {', '"other": {'))


def test_a_tape_of_another_version_of_the_file_is_played_with_a_note(declare: Load) -> None:
    """Its events may mean something else by now."""
    declare(COMPACT)
    events = (own(),)
    assert events_file.another_file(events, {"events": events_file.events_origin(events)}) is None
    assert events_file.another_file(events, {"events": {"file": "mine.py", "sha256": "0"}}) is not None
    assert events_file.another_file((), {"events": {"file": "mine.py", "sha256": "0"}}) is None


def test_a_field_that_the_class_does_not_have_is_refused(declare: Load) -> None:
    """And it is the class that is pointed at, not the published schema."""
    declare(COMPACT)
    text = dumps(Tape(CONFIG, (own(),))).replace('"compact"', '"compact", "n": 1')
    with pytest.raises(TapeError, match=r"'n' was unexpected.*; see its class"):
        loads(text)


@pytest.mark.parametrize(
    ("before", "told"),
    [
        ((ev.Alloc(0, 2), ev.FreeGroupBegin()), "slots freed in an open free group are neither free nor owned"),
        ((ev.Alloc(0, 2), ev.Backup()), "between backup and restore a draft only allocates"),
        ((ev.Alloc(0, 2), ev.BeginForward(((0, 0, 1),))), "Evict.legal() says that it may not be done now"),
        ((ev.Alloc(0, 1),), "the span must lie inside the request's tokens"),
        ((ev.Alloc(0, 2), ev.FreeSwa(0, 0, 2)), "the evicted length only grows"),
        ((ev.Alloc(0, 2),), None),
    ],
)
def test_legal_is_what_the_file_and_the_meaning_allow(
    declare: Load, before: tuple[ev.Event, ...], told: str | None
) -> None:
    """The contracts of the words that say what an event means hold for it, too."""
    declare(EVICT)
    ledger = Ledger(CONFIG)
    for event in before:
        ledger.apply(event)
    reason = own(request=0, start=0, stop=2).violation(ledger)
    assert reason is None if told is None else told in (reason or "")


def test_no_pool_is_packed_under_a_batch_that_was_translated_up_front(declare: Load) -> None:
    """Its translation is made once, and nobody makes it anew."""
    declare(COMPACT)
    ledger = Ledger(CONFIG)
    for event in (ev.Alloc(0, 1), ev.BeginForward(((0, 0, 1),), precomputed=True)):
        ledger.apply(event)
    assert "no mapping may change before it ends" in (own().violation(ledger) or "")


def test_each_part_of_a_meaning_is_judged_after_those_before_it(declare: Load) -> None:
    """The same span cannot be given up twice; given up and mapped again it can be."""
    twice = "def apply(self, model): model.free_swa(0, 0, 1); model.free_swa(0, 0, 1)"
    declare(with_(twice))
    ledger = Ledger(CONFIG)
    ledger.apply(ev.Alloc(0, 1))
    assert "no page is evicted twice" in (own().violation(ledger) or "")
    declare(with_("def apply(self, model): model.free_swa(0, 0, 1); model.set_mapping(0, 0, 1)"))
    assert own().violation(ledger) is None
    assert ledger.mapped(0, 0, 1) == [True]


def test_an_event_is_drawn_shrunk_repaired_and_told(declare: Load) -> None:
    """Spans are clipped like those of other events, and the docstring's first line stands in reports."""
    declare(EVICT)
    tapes = [generate(seeded(1, index), BuiltinTarget.profiles) for index in range(40)]
    assert sum(event.kind == "evict-head" for tape in tapes for event in tape.events) > 5
    event = own(request=1, start=1, stop=3)
    assert own(request=1, start=0, stop=2) in list(event.simpler())
    assert own(request=0, start=1, stop=3) in list(event.simpler())
    assert repair(CONFIG, (ev.Alloc(1, 2), event), PROFILE)[1] == own(request=1, start=1, stop=2)
    assert steps(Tape(CONFIG, (ev.Alloc(1, 3), event)))[1] == "request 1, start 1, stop 3"
    declare(COMPACT)
    assert steps(Tape(CONFIG, (own(),))) == ["packs the pool"]


ODD = """
class Odd(Declared):
    kind = "odd"
    request: bool = True
    requests: int = 7
    start: tuple[int, ...] = (1, 2)
    count: bool = True
    source: tuple[tuple[int, int], ...] = ((1, 2),)

    def call(self, cache):
        pass

    def apply(self, model):
        pass
"""


def test_an_event_that_names_requests_by_other_names_is_not_renumbered(declare: Load) -> None:
    """Shrinking knows the names that the documentation lists; others would name other requests then."""
    declare(
        """
        class Trade(Declared):
            kind = "trade"
            one: int
            other: int

            @classmethod
            def draw(cls, choices, books):
                return None

            def legal(self, books):
                return self.one != self.other and bool(books.length(self.one) and books.length(self.other))

            def call(self, cache):
                pass

            def apply(self, model):
                pass
        """
    )
    trade = guarding.declared()["trade"]
    tape = Tape(Config(policy="memo"), (ev.Alloc(3, 1), ev.Alloc(1, 1), trade(3, 1)))
    found = Divergence("leak", "conservation", 2, "it")

    def judge(it: Tape) -> Divergence | None:
        assert find_violation(it, BuiltinTarget.profiles)[1] is None
        return found if [event.kind for event in it.events] == ["alloc", "alloc", "trade"] else None

    shrunk = shrink(tape, found, BuiltinTarget.profiles[0], judge)
    assert (shrunk.ended, shrunk.tape.events[-1]) == (None, trade(3, 1))


def test_an_event_is_tried_between_two_questions_for_the_same_locs(declare: Load) -> None:
    """Whatever else asks: what a cache keeps from before the event is asked for right after it."""
    declare(COMPACT)
    between = 0
    for index in range(40):
        kinds = generate(seeded(2, index), BuiltinTarget.profiles).events
        between += sum(
            mine.kind == "compact" and one == other and isinstance(one, ev.Translate) and one.source == "kept"
            for one, mine, other in zip(kinds, kinds[1:], kinds[2:], strict=False)
        )
    assert between > 5


def test_parameters_may_be_called_anything(declare: Load) -> None:
    """Shrinking knows some names, and takes them for what they are only if they are numbers."""
    declare(ODD)
    before = (ev.AllocExtend(((1, 8),)), own(), ev.AllocExtend(((2, 4),)))
    for events in (
        renumbered(before), shortened(before, 1, 4), scaled(before, 4, 2), *joined(before), *merged(before),
    ):  # fmt: skip
        assert [event for event in events if event.kind == "odd"] == [own()]
    smaller = list(own().simpler())
    assert own(request=False) in smaller
    assert own(start=(1,)) in smaller
    assert all(fits(event_to_json(event), schema_of(type(event))) for event in smaller)


ENDLESS = """
def legal(self, books):
    while True:
        try:
            list(range(9))
        except Exception:
            pass
"""


def test_a_function_that_does_not_come_back_is_noticed(declare: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a tape is drawn; one that catches everything, too."""
    monkeypatch.setattr(guarding, "PATIENCE", 0.05)
    declare(with_(ENDLESS))
    with pytest.raises(DeclaredError, match=r"mine\.py, .*Compact\.legal\(\): it does not return"), watched():
        own().violation(Ledger(CONFIG))


def test_a_tape_that_is_drawn_otherwise_the_second_time_is_noticed(declare: Load) -> None:
    """What the seed does not decide cannot be played again."""
    declare(COMPACT)
    one, other = (generate(seeded(3, index), BuiltinTarget.profiles) for index in (0, 1))
    check_drawn(one, fingerprint(one))
    with pytest.raises(DeclaredError, match="the same seed gave two different tapes"):
        check_drawn(one, fingerprint(other))


def test_the_files_in_the_documentation_can_be_used(declare: Load) -> None:
    """The first is the example's, the second has parameters."""
    root = Path(__file__).parents[3]
    example = (root / "examples" / "compact" / "events.py").read_text(encoding="utf-8")
    texts = re.findall(r"```python\n(.*?)```", (root / "docs" / "EVENTS.md").read_text(encoding="utf-8"), re.DOTALL)
    assert example.endswith(texts[0])
    engine = [profile for profile in BuiltinEngine.profiles if profile.level == "engine" and not profile.features]
    for text, kind in zip(texts, ("compact", "evict_head", "sort_free"), strict=True):
        declare(text)
        profiles = BuiltinTarget.profiles if guarding.declared("allocator") else engine
        tapes = [generate_tape(seeded(5, index), profiles) for index in range(20)]
        assert any(event.kind == kind for tape in tapes for event in tape.events)


def test_books_show_what_a_scheduler_knows(declare: Load) -> None:
    """Lengths, pages, what is free and what runs."""
    seen = "seen = []\n" + with_("def legal(self, books):\n    seen.append(books)\n    return True")
    declare(seen)
    ledger = Ledger(CONFIG)
    for event in (ev.Alloc(2, 3), ev.FreeSwa(2, 0, 1), ev.BeginForward(((2, 1, 2),))):
        ledger.apply(event)
    assert own().violation(ledger) is None
    books = guarding.sys.modules[guarding.MODULE].seen[0]
    assert (books.requests, books.length(2), books.length(5)) == ((2,), 3, 0)
    assert (books.mapped(2), books.mapped(5)) == ((False, True, True), ())
    assert (books.free_full_pages, books.free_swa_pages) == (1, 2)
    assert (books.forward, books.config.window) == (((2, 1, 2),), 2)
