"""fit: recipes, budgets, seeds, and interruption."""

from __future__ import annotations

import _thread
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from types import FrameType

import numpy as np
import pytest
import torch
from conftest import DIM, QUICK, TINY, WINDOW, new_index
from test_bad_input import state

from pam_retriever import Channels, FitConfig, PredictiveAssociativeIndex
from pam_retriever.experience.cooccurrence import Experience, associate
from pam_retriever.training.config import CONFIGS
from pam_retriever.training.objectives import InfoNCEObjective, JointObjective, runs_of
from pam_retriever.training.shards import InMemoryShards
from pam_retriever.training.trainer import _Clock


def test_the_paper_configuration_is_the_published_recipe():
    paper = CONFIGS["paper"]
    assert (paper.objective, paper.hidden, paper.residual_layers, paper.whiten) == ("info_nce", 1024, 2, False)
    assert (paper.batch_size, paper.passes, paper.pairs) == (512, 500, 200_000)
    assert (paper.learning_rate, paper.final_learning_rate, paper.warmup) == (5e-4, 1e-5, 0)
    assert (paper.weight_decay, paper.gradient_clip, paper.beta2) == (1e-4, 1.0, 0.999)
    assert (paper.temperature, paper.final_temperature, paper.precision) == (0.15, 0.05, "float32")


def line(trajectories: int, length: int) -> Experience:
    steps = np.arange(trajectories * length)
    return Experience(steps, steps // length, steps % length)


def test_the_paper_draws_its_pairs_once_and_drops_the_last_batch():
    graph = associate(line(50, 100), 5000, 5)
    objective = InfoNCEObjective(graph, FitConfig(batch_size=512, pairs=20_000), np.random.default_rng(0))
    assert objective.coverage == pytest.approx(20_000 / 48_500)
    passes = [list(objective.batches(np.random.default_rng(seed))) for seed in (1, 2)]
    assert [len(batches) for batches in passes] == [objective.steps, 20_000 // 512]
    everything = {tuple(pair) for batches in passes for batch in batches for pair in batch.tolist()}
    assert len(everything) <= 20_000
    dense = {(a, b) for a, b in zip(graph.anchors().tolist(), graph.indices.tolist(), strict=True)}
    assert everything <= dense


@pytest.mark.parametrize(
    ("trajectories", "length", "batch"), [(50, 100, 1000), (3, 1000, 200), (400, 3, 128), (1, 7, 64)]
)
def test_every_association_is_in_some_batch_of_every_pass(trajectories, length, batch):
    experience = line(trajectories, length)
    memories = len(experience) + 30  # the last 30 are in no trajectory
    graph = associate(experience, memories, 5)
    objective = JointObjective(experience, graph, 5, FitConfig(batch_size=batch), torch.Generator())
    missing = set(zip(graph.anchors().tolist(), graph.indices.tolist(), strict=True))
    seen = set()
    for members in objective.batches(np.random.default_rng(0)):
        assert len(members) <= 2 * batch
        there = set(members.tolist())
        assert len(there) == len(members)
        seen |= there
        missing -= {(a, b) for a, b in missing if a in there and b in there}
    assert not missing
    assert seen == set(range(len(experience)))


def test_the_batches_of_segments_are_about_equally_long():
    segments = np.stack([np.arange(0, 1000, 10), np.arange(10, 1010, 10)], axis=1)
    runs = list(runs_of(segments[np.random.default_rng(0).permutation(100)], 5))
    assert all(abs(len(run) - 200) <= 10 for run in runs)
    assert sorted(np.concatenate(runs).tolist()) == list(range(1000))


def test_the_report_describes_the_training(planted):
    report = new_index(planted).fit(planted.outings, window=WINDOW, config=TINY, progress=False)
    assert (report.memories, report.trajectories) == (200, 20)
    assert report.associations == 20 * 2 * (9 + 8)
    assert (report.coverage, report.stopped_by, report.device) == (1.0, "passes", "cpu")
    assert len(report.losses) == report.config["passes"] == TINY.passes
    # the loss cannot reach 0: one point cannot be near to all associates
    assert report.losses[-1] < 0.5 * report.losses[0]
    assert "200 memories" in repr(report)


@pytest.mark.slow
def test_stopping_early_is_the_beginning_of_the_whole_schedule(planted):
    """A training with ``stop_after`` makes the same first steps as the whole training."""
    runs = [
        new_index(planted).fit(planted.outings, config=FitConfig(hidden=32, passes=20, stop_after=stop), progress=False)
        for stop in (None, 7)
    ]
    assert runs[1].losses == runs[0].losses[:7]
    assert [run.stopped_by for run in runs] == ["passes", "passes"]


def test_the_same_seed_gives_the_same_index_and_another_does_not(planted):
    predicted = []
    for seed in (1, 1, 2):
        torch.rand(3)  # the global generator has no effect
        np.random.rand(3)
        index = new_index(planted)
        index.fit(planted.outings, config=FitConfig(hidden=32, passes=5, noise=0.1), seed=seed, progress=False)
        predicted.append(index._store.predictor(planted.vectors))
    np.testing.assert_array_equal(predicted[0], predicted[1])
    assert np.abs(predicted[0] - predicted[2]).max() > 0.01


def test_no_global_state_is_touched(planted):
    before = torch.get_rng_state(), np.random.get_state()[1].tolist(), torch.get_num_threads()
    new_index(planted).fit(planted.outings, config=FitConfig(hidden=8, passes=2, noise=0.1), progress=False)
    assert torch.equal(before[0], torch.get_rng_state())
    assert (before[1], before[2]) == (np.random.get_state()[1].tolist(), torch.get_num_threads())


def test_the_used_share_of_a_time_budget_counts_the_time_before_an_interruption():
    assert 0.25 <= _Clock(before=1000.0, budget=4000.0).share() < 0.5
    assert _Clock(before=1000.0, budget=None).share() == 0


def test_a_time_budget_ends_the_training_and_the_schedule(planted):
    report = new_index(planted).fit(
        # one temperature, so that the losses can be compared
        planted.outings,
        config=FitConfig(hidden=64, passes=10**5, final_temperature=0.2),
        time_budget=0.5,
        progress=False,
    )
    assert report.stopped_by == "time_budget"
    assert report.losses[-1] < report.losses[0]


# Hypothesis times the garbage collector in a callback. CPython drops an interrupt that arrives there, and warns.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("durable", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_ctrl_c_leaves_the_index_as_it_was(planted, durable, tmp_path, request):
    if durable:
        index = PredictiveAssociativeIndex.open(tmp_path / "index", dim=DIM)
        index.add(planted.vectors, planted.ids)
    else:
        index = new_index(planted)
    before = state(index)

    over = threading.Event()

    def interrupt() -> None:
        # a second interrupt, because the first may be dropped, see above
        while not over.wait(2.0):
            _thread.interrupt_main()

    def handler(number: int, frame: FrameType | None) -> None:
        # only an interrupt inside ``fit`` counts; on a slow machine a late one would end pytest
        while frame is not None:
            if frame.f_code is PredictiveAssociativeIndex.fit.__code__:
                signal.default_int_handler(number, frame)
            frame = frame.f_back

    # a shell may start a background process so that it ignores the signal; then the test would never end
    before_that = signal.signal(signal.SIGINT, handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before_that))
    threading.Thread(target=interrupt).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            index.fit(
                [*planted.outings, planted.vectors[:5] + 1], config=FitConfig(hidden=64, passes=10**5), progress=False
            )
    finally:
        over.set()
    assert state(index) == before
    index.fit(planted.outings, config=FitConfig(hidden=8, passes=1), progress=False)
    assert index.is_fitted


def test_the_index_answers_while_it_learns_and_keeps_what_is_added_meanwhile(planted):
    index = new_index(planted)
    index.fit(planted.outings, config=FitConfig(hidden=8, passes=1), progress=False)
    answers = 0
    with ThreadPoolExecutor() as threads:
        learning = threads.submit(index.fit, config=FitConfig(hidden=64, passes=10**5), time_budget=2.0)
        while not learning.done():
            assert len(index.recall("m000", k=3)) == 3
            index.add(np.ones((1, DIM)), [f"added {answers}"])
            index.delete("m199")
            answers += 1
            time.sleep(0.02)
    assert learning.result().stopped_by == "time_budget"
    assert answers  # the queries did not wait for the end of the fit
    assert len(index) == 199 + answers
    assert "m199" not in {hit.id for hit in index.recall("m198", k=1000)}
    assert len(index.recall("m000", k=1000)) == 198 + answers


@pytest.mark.slow
@pytest.mark.parametrize("mode", [torch.inference_mode, pytest.param(torch.no_grad, marks=pytest.mark.slow)])
def test_a_fit_inside_a_block_without_gradients_learns_the_same(planted, mode):
    """A fit learns the same weights where gradients are off: in a ``no_grad`` block, or after an interrupted exit."""
    weights = []
    for within in (nullcontext, mode):
        index = new_index(planted)
        with within():
            index.fit(planted.outings, config=QUICK, progress=False)
            index.fit([planted.ids[:3]], config=QUICK, progress=False)  # continues from the first
        weights.append(index._store.predictor.arrays)
    for name, expected in weights[0].items():
        np.testing.assert_array_equal(weights[1][name], expected)


def test_many_threads_at_once(planted):
    index = new_index(planted)
    index.fit(planted.outings, config=FitConfig(hidden=8, passes=1), progress=False)

    def work(number: int) -> None:
        for turn in range(20):
            index.add(planted.vectors[:2] + turn, [f"{number}-{turn}-a", f"{number}-{turn}-b"])
            assert index.recall(planted.vectors[number], k=5, mode="hybrid")
            assert index.delete(f"{number}-{turn}-b") == 1

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))
    assert len(index) == 200 + 8 * 20


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("config", [TINY, FitConfig(objective="info_nce", hidden=64, passes=100, batch_size=64)])
def test_cuda_learns_what_the_cpu_learns(planted, config):
    found = []
    for device in ("cpu", "cuda"):
        index = new_index(planted)
        report = index.fit(planted.outings, window=WINDOW, config=config, device=device, progress=False)
        assert report.device.startswith(device)
        hits = index.recall(planted.ids, k=4)
        right = [len(planted.associates(id) & {h.id for h in one}) for id, one in zip(planted.ids, hits, strict=True)]
        found.append(sum(right))
    assert found[1] > 0.95 * found[0]


@pytest.mark.slow
def test_the_bar_shows_the_work_and_the_log_the_cost_before_the_training(planted, capsys, caplog):
    index = new_index(planted)
    with caplog.at_level("INFO", "pam_retriever"):
        report = index.fit(planted.outings, window=WINDOW, config=TINY, progress=True)
    assert "learning 200 memories in 20 trajectories" in capsys.readouterr().err.split("\r")[1]
    cost, done = [record.getMessage() for record in caplog.records if record.getMessage().startswith("fit")]
    assert f"{TINY.hidden} wide" in cost
    assert f"{6.0 * report.parameters * report.config['batch_size'] * report.steps:.1e} FLOP" in cost
    assert done == f"fit: {report!r}"


@pytest.mark.parametrize(("steps", "passes"), [(1, 60), (2, 40), (10, 40), (20, 20), (25, 16), (50, 16)])
def test_fewer_states_are_learnt_in_more_passes_and_fewer_steps(steps, passes):
    assert FitConfig().with_passes(steps, 1.0).passes == passes
    assert FitConfig(passes=7).with_passes(steps, 1.0).passes == 7


def test_memories_that_were_met_more_often_are_learnt_in_fewer_passes():
    often = Experience(np.tile(np.arange(10), 4), np.repeat(np.arange(4), 10), np.tile(np.arange(10), 4))
    shards = InMemoryShards(np.zeros((12, DIM), np.float32), often)
    assert shards.meetings == 4  # the last two memories were never met
    assert FitConfig().with_passes(1000, shards.meetings).passes < FitConfig().with_passes(1000, 1.0).passes


@pytest.mark.parametrize(
    ("memories", "hidden", "batch"),
    [
        (5, 256, 5),
        (400, 256, 256),
        (2_000, 768, 256),
        (10_000, 1_920, 400),
        (50_000, 5_120, 1_000),
        (100_000, 7_808, 1_000),
        (1_000_000, 16_384, 1_000),
    ],
)
def test_few_memories_are_learnt_by_a_narrow_network_in_small_batches(memories, hidden, batch):
    config = FitConfig().resolve(steps=memories, memories=memories)
    assert (config.hidden, config.batch_size) == (hidden, batch)
    given = FitConfig(hidden=8, batch_size=7).resolve(steps=memories, memories=memories)
    assert (given.hidden, given.batch_size) == (8, 7)


@pytest.mark.slow
def test_the_fewer_steps_of_a_few_hundred_states_find_what_the_many_did():
    vectors = np.random.default_rng(5).standard_normal((300, 64)).astype(np.float32)
    vectors += 2 * np.repeat(np.random.default_rng(6).standard_normal((60, 64)), 5, axis=0)  # similar vectors
    index = PredictiveAssociativeIndex(dim=64)
    ids = index.add(vectors, [str(number) for number in range(300)])
    report = index.fit([ids[start : start + 20] for start in range(0, 300, 20)], window=WINDOW, progress=False)
    assert report.steps == 80
    found = 0
    for at in range(2, 300, 5):  # no cue is at an end of its trajectory
        hits = index.recall(ids[at], k=2 * WINDOW, channels=Channels(forward=1, reverse=1))
        found += len({hit.id for hit in hits} & {ids[at + offset] for offset in (-2, -1, 1, 2)})
    assert found >= 0.95 * 60 * 2 * WINDOW


@pytest.mark.parametrize("count", [2, 3])
def test_equal_memories_have_a_prediction_with_a_direction(count, tmp_path):
    """A fit works if all memories are equal: the prediction is not a zero vector."""
    index = PredictiveAssociativeIndex.open(tmp_path / "index", dim=4)
    ids = [f"m{number}" for number in range(count)]
    index.add(np.tile(np.random.default_rng(0).standard_normal(4).astype(np.float32), (count, 1)), ids)
    index.fit([ids], config=FitConfig(hidden=8, passes=1), progress=False)
    index.fit([ids], config=FitConfig(hidden=8, passes=1), progress=False)  # reads the stored result of the first one
    index.close()
    with PredictiveAssociativeIndex.open(tmp_path / "index") as again:
        assert len(again.recall(ids[0], k=5)) == count - 1
