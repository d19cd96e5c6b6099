"""Tweets: read from both formats, split without loss, encoded with a vocabulary that never saw the test."""

import gzip
import json
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from real_data import DATA, real

from manyheads import FedAvg, UserError, simulate
from manyheads.core.optim import SGD
from manyheads.data import Dirichlet, federate, parse_partition
from manyheads.data.public.readers.sent140 import Tweet, read_sent140
from manyheads.data.public.text import Sent140, encode, held_out, tokens, vocabulary
from manyheads.data.sources import source_named
from manyheads.models import LSTM, build_model

REAL = DATA / "sent140"
needs_tweets = real("sent140")

ROWS = [
    ("0", "ann", "so sad"),
    ("4", "bob", 'said ""yes"", café'),
    ("0", "ann", "two\nlines, and a comma"),
    ("4", "cy", ""),
]
TWEETS = [Tweet("ann", "so sad", 0), Tweet("bob", 'said "yes", café', 1), Tweet("ann", "two\nlines, and a comma", 0), Tweet("cy", "", 1)]  # fmt: skip
CSV = "".join(f'"{p}","1","Mon","NO_QUERY","{u}","{t}"\n' for p, u, t in ROWS)


def leaf(tweets: list[Tweet]) -> str:
    users = sorted({t.user for t in tweets})
    own = {u: [t for t in tweets if t.user == u] for u in users}
    data = {
        u: {"x": [["1", "Mon", "NO_QUERY", u, t.text, "x"] for t in v], "y": [t.label for t in v]}
        for u, v in own.items()
    }
    return json.dumps({"users": users, "num_samples": [len(v) for v in own.values()], "user_data": data})


def made_up(count: int = 400) -> list[Tweet]:
    """Tweets whose label can be told from their words; each has a word of its own."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, count)
    moods = {0: ["sad", "bad", "cry"], 1: ["happy", "good", "yay"]}
    filler = ["the", "a", "day", "is", "my"]
    return [
        Tweet(
            f"u{i % 37}",
            " ".join([f"w{i}", *rng.choice(filler, 3), rng.choice(moods[int(y)]), rng.choice(filler)]),
            int(y),
        )
        for i, y in enumerate(labels)
    ]


# -- readers ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1"])
@pytest.mark.parametrize("packed", [False, True])
def test_the_six_column_csv(tmp_path, encoding, packed):
    data = CSV.encode(encoding)
    file = tmp_path / ("tweets.csv.gz" if packed else "tweets.csv")
    file.write_bytes(gzip.compress(data) if packed else data)
    (tmp_path / "testdata.manual.2009.06.14.csv").write_text('"2","1","Mon","q","u","neutral"\n')
    assert read_sent140(file) == read_sent140(tmp_path) == TWEETS


@pytest.mark.parametrize("packed", [False, True])
def test_leaf_json_in_one_file_and_as_a_training_and_a_test_folder(tmp_path, packed):
    for folder, part in (("train", TWEETS[:3]), ("test", TWEETS[3:])):
        (tmp_path / folder).mkdir()
        data = leaf(part).encode()
        file = tmp_path / folder / ("some.json.gz" if packed else "some.json")
        file.write_bytes(gzip.compress(data) if packed else data)
    assert sorted(read_sent140(tmp_path)) == sorted(TWEETS)
    assert sorted(read_sent140(file)) == sorted(TWEETS[3:])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", CSV + '"4","1","Mon"\n', "a.csv line 6 is not a labelled tweet; given .3 columns"),
        (
            "a.csv",
            CSV + '"2","1","Mon","q","u","text"\n',
            "line 6 is not a labelled tweet; .* the first '2'.; allowed: polarity",
        ),
        ("a.csv", "polarity,id,date,query,user,text\n" + CSV, "line 1 is not a labelled tweet"),
        ("a.json", "[1", "a.json is not valid JSON"),
        ("a.json", leaf([Tweet("ann", "", 3)]), "user ann is not a labelled tweet; given 'label 3'"),
        ("a.json", leaf(TWEETS[:1]).replace('"1", "Mon", ', ""), "user ann is not a labelled tweet"),
        ("a.csv.gz", "not packed at all", "line 1 is not a labelled tweet"),
    ],
)
def test_broken_files_are_named(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(UserError, match=message):
        read_sent140(tmp_path)


def test_two_tables_are_not_mixed(tmp_path):
    for name in ("all.csv", "some.csv"):
        (tmp_path / name).write_text(CSV)
    with pytest.raises(UserError, match=r"several CSV files, which may share tweets; given 'all.csv, some.csv'"):
        read_sent140(tmp_path)


def test_without_files_the_error_says_what_to_put_where(tmp_path, monkeypatch):
    monkeypatch.setenv("MANYHEADS_DATA", str(tmp_path))
    with pytest.raises(UserError) as error:
        Sent140().pool(0)
    assert f"no tweets in {tmp_path}/sent140" in str(error.value)
    assert "put training.1600000.processed.noemoticon.csv" in str(error.value)
    assert "\n" not in str(error.value)


# -- from tweets to tokens ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SAD, sad... 2day", ["sad", "sad", "2day"]),
        ("@Bob_1: see www.x.org/a?b=1 #Fun", ["<user>", "see", "<url>", "fun"]),
        ("I'm &quot;ok&quot; &amp; you?!", ["i'm", "ok", "you", "?", "!"]),
        ("café 日本", ["café", "日本"]),
        ("  ", []),
    ],
)
def test_tokens(text, found):
    assert tokens(text) == found


def test_the_vocabulary_is_the_most_frequent_words_ties_in_order():
    assert vocabulary([["b", "c", "a"], ["c", "d"]], size=5) == ["<pad>", "<unk>", "c", "a", "b"]


def test_tweets_are_cut_padded_and_unknown_words_marked():
    x = encode([["a", "q", "b"], ["b"], []], ["<pad>", "<unk>", "a", "b"], 2)
    assert x.tolist() == [[2, 1], [3, 0], [0, 0]]


@pytest.mark.parametrize("fraction", [0.1, 0.2, 0.5])
def test_the_test_part_is_a_fraction_of_every_label_and_nearly_of_every_user(fraction):
    rng = np.random.default_rng(0)
    labels, users = rng.integers(0, 2, 3000), rng.integers(0, 40, 3000)
    test = held_out(labels, users, fraction, seed=0)
    for label in (0, 1):
        mine = labels == label
        assert abs(test[mine].sum() - fraction * mine.sum()) <= 1
        for user in range(40):
            own = mine & (users == user)
            assert abs(test[own].sum() - fraction * own.sum()) < 1 + 1e-9
    assert (test == held_out(labels, users, fraction, seed=0)).all()
    assert (test != held_out(labels, users, fraction, seed=1)).any()


@pytest.fixture
def small(tmp_path) -> Sent140:
    (tmp_path / "made-up.json").write_text(leaf(made_up()))
    return Sent140(path=str(tmp_path), length=8, words=str(tmp_path / "words.txt"))


def test_the_vocabulary_does_not_know_the_words_of_test_tweets(small):
    pool = small.pool(0)
    assert (pool.x.shape, pool.x_test.shape, pool.x.dtype) == ((320, 8), (80, 8), np.int64)
    # every tweet begins with a word that no other has
    assert (pool.x_test[:, 0] == 1).all()
    assert len(set(pool.x[:, 0])) == 320
    assert 1 not in pool.x
    words = Path(small.words).read_text().split("\n")
    assert len(words) == pool.x.max() + 1
    assert words[:2] == ["<pad>", "<unk>"]
    counts = Counter(pool.x[pool.x > 0].tolist())
    assert [counts[i] for i in range(2, len(words))] == sorted(counts.values(), reverse=True)


def test_the_split_depends_on_the_seed_and_loses_nothing(small):
    first, again, other = small.pool(0), small.pool(0), small.pool(1)
    assert np.array_equal(first.x, again.x)
    assert not np.array_equal(first.keys["user"], other.keys["user"])
    assert sorted(first.keys["user"]) == sorted(other.keys["user"]) == sorted(t.user for t in made_up())
    assert np.bincount(np.r_[first.y, first.y_test]).tolist() == np.bincount([t.label for t in made_up()]).tolist()


def test_a_smaller_vocabulary_makes_the_rare_words_unknown(tmp_path, small):
    pool = Sent140(path=small.path, vocabulary_size=6, length=8).pool(0)
    assert pool.x.max() == 5
    assert (pool.x[:, 0] == 1).all()


def test_the_lstm_learns_the_mood_of_made_up_tweets(small):
    federation = federate(small.pool(0), Dirichlet(alpha=1.0), clients=4, seed=0)
    model = build_model(LSTM(vocabulary_size=400, dimension=16, units=16, dropout=0.2), (8,), 2, seed=0)
    run = simulate(FedAvg(epochs=3, batch=10, sgd=SGD(lr=0.5)), model, federation, rounds=6)
    assert run.accuracy > 0.9


# -- the real sample ----------------------------------------------------------------------------------------------------


@cache
def real() -> list[Tweet]:
    return read_sent140(REAL)


@needs_tweets
def test_the_sample_has_the_tweets_it_should():
    tweets = real()
    assert (len(tweets), len({t.user for t in tweets})) == (42_501, 37_971)
    assert sum(t.label == 0 for t in tweets) == 19_871
    assert sum(n >= 5 for n in Counter(t.user for t in tweets).values()) == 116
    assert all(t.text for t in tweets)


@needs_tweets
def test_the_sample_as_a_pool_and_by_user():
    pool = source_named("sent140")(path=str(REAL)).pool(0)
    assert pool.x.shape == (34_001, 25)
    assert pool.x_test.shape == (8_500, 25)
    assert pool.x.max() == 9_999
    assert (pool.x[:, 0] != 0).mean() > 0.999
    federation = federate(pool, parse_partition("key:user,minimum=3"), clients=0, seed=0)
    assert len(federation) == 714
    assert len(federation.train.y) + len(federation.test.y) == 2_678


def test_clients_by_user_keep_the_split_that_the_vocabulary_was_counted_on(tmp_path):
    """Otherwise a user's test tweets would have been among those that the words come from."""
    from manyheads.data import Key, Pool, federate

    x, y = np.arange(12)[:, None], np.tile([0, 1], 6)
    users = np.array(["a", "a", "a", "b", "b", "c", "c", "a", "b", "b", "d", "d"])
    pool = Pool("tweets", x[:7], y[:7], x[7:], y[7:], 2, {"user": users}, keep_split=True)
    federation = federate(pool, Key(key="user"), clients=0, seed=0)
    assert federation.client_names == ("a", "b", "c")  # d has test tweets only
    assert [federation.train.client(i)[0].ravel().tolist() for i in range(3)] == [[0, 1, 2], [3, 4], [5, 6]]
    assert [federation.test.client(i)[0].ravel().tolist() for i in range(3)] == [[7], [8, 9], []]
