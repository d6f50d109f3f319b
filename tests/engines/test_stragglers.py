"""Who is too slow: over twice the median time, three times in a row."""

from scheduling.engines.trainer.stragglers import StragglerRule, Watch, is_slow


def after(watch: Watch, *reports: tuple[int, float]) -> Watch:
    for rank, seconds in reports:
        watch = watch.after(rank, seconds)
    return watch


def test_slow_is_more_than_twice_the_median() -> None:
    times = {0: 1.0, 1: 1.1, 2: 0.9, 3: 2.0}
    assert not is_slow(3, times, StragglerRule())
    assert is_slow(3, {**times, 3: 2.01}, StragglerRule())


def test_of_two_workers_the_slower_one_can_be_found() -> None:
    assert is_slow(1, {0: 1.0, 1: 2.5}, StragglerRule())
    assert not is_slow(0, {0: 1.0, 1: 2.5}, StragglerRule())


def test_nobody_is_slower_than_itself() -> None:
    assert not is_slow(0, {0: 100.0}, StragglerRule())


def test_differences_smaller_than_noise_do_not_count() -> None:
    assert not is_slow(1, {0: 0.0001, 1: 0.019, 2: 0.0001}, StragglerRule())


def test_straggler_only_after_three_slow_reports_in_a_row() -> None:
    watch = after(Watch(), (0, 1.0), (1, 1.0), (2, 3.0), (2, 3.0))
    assert not watch.is_straggler(2)
    assert after(watch, (2, 3.0)).is_straggler(2)
    assert not after(watch, (2, 1.0), (2, 3.0), (2, 3.0)).is_straggler(2)


def test_who_left_counts_no_more() -> None:
    watch = after(Watch(), (0, 1.0), (1, 9.0), (1, 9.0), (1, 9.0)).without(1)
    assert not watch.is_straggler(1)
    assert watch.median == 1.0
    assert not after(watch, (1, 9.0)).is_straggler(1)
