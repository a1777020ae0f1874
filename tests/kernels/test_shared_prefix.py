"""Which sequences share leading blocks."""

from hypothesis import given
from hypothesis import strategies as st
from kvxray_kernels.shared_prefix import SharedPrefix, shared_prefixes


def test_sequences_with_the_same_leading_blocks_are_one_group():
    tables = [[1, 2, 3, 4, 5, 6], [9, 8, 7, 6], [1, 2, 3, 4, 5, 7], [1, 2, 3, 4, 8]]
    assert shared_prefixes(tables) == (SharedPrefix((0, 2, 3), 4),)


def test_fewer_blocks_than_worth_it_are_left_alone():
    assert shared_prefixes([[1, 2, 3, 4], [1, 2, 3, 5]]) == ()
    assert shared_prefixes([[1, 2, 3], [1, 2, 3]]) == ()
    assert shared_prefixes([]) == ()


def test_an_outlier_with_a_short_common_beginning_does_not_spoil_a_long_one():
    long = list(range(1, 101))
    tables = [[*long, 200], [*long, 201], [1, 2, 3, 4, 300], long]
    assert shared_prefixes(tables) == (SharedPrefix((0, 1, 3), 100),)


def test_two_families_under_one_short_root_are_two_groups():
    root = [1, 2, 3, 4]
    tables = [[*root, *range(10, 30)], [*root, *range(10, 30), 99], [*root, *range(40, 60)], [*root, *range(40, 60)]]
    assert set(shared_prefixes(tables)) == {SharedPrefix((0, 1), 24), SharedPrefix((2, 3), 24)}


@given(st.lists(st.lists(st.integers(1, 3), max_size=9), max_size=9), st.integers(1, 5))
def test_groups_are_disjoint_and_tell_the_truth(tables, min_blocks):
    seen: set[int] = set()
    for group in shared_prefixes(tables, min_blocks):
        assert len(group.sequences) >= 2
        assert group.num_blocks >= min_blocks
        assert len({tuple(tables[i][: group.num_blocks]) for i in group.sequences}) == 1
        assert all(len(tables[i]) >= group.num_blocks for i in group.sequences)
        assert not seen & set(group.sequences)
        seen |= set(group.sequences)
