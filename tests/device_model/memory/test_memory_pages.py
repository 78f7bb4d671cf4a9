"""Pages of managed memory against a model that keeps a set of places for each page."""

from hypothesis import given
from hypothesis import strategies as st

from device_model.memory.pages import BLOCK, HOST, PAGE, REGION, Advice, Pages

SIZE = BLOCK + 3 * REGION + 5000  # two blocks, and the last page is not whole
COUNT = -(-SIZE // PAGE)
PER_REGION = REGION // PAGE

edges = st.sampled_from([0, 1, PAGE, REGION - 1, REGION, BLOCK - 1, BLOCK, BLOCK + REGION, SIZE - 1, SIZE])
spans = st.tuples(edges | st.integers(0, SIZE), edges | st.integers(0, SIZE)).map(sorted).filter(lambda s: s[0] < s[1])
steps = st.tuples(st.sampled_from(["read", "write", "see", "set", "prefetch", "mostly", "not mostly"]), spans,
                  st.sampled_from([HOST, 0, 1]))  # fmt: skip


class Model:
    """The places of each page, and whether it is read-mostly."""

    def __init__(self):
        self.places = [{HOST} for _ in range(COUNT)]
        self.mostly = [False] * COUNT

    def bring(self, page, place):
        """Whether *page* has to move, or to be copied, to *place*."""
        if place in self.places[page]:
            return False
        self.places[page] = self.places[page] | {place} if self.mostly[page] else {place}
        return True

    def regions(self, pages, place):
        """The pages of the regions in which one of *pages* is not at *place*."""
        regions = dict.fromkeys(page // PER_REGION for page in pages if place not in self.places[page])
        return [page for region in regions for page in range(region * PER_REGION, (region + 1) * PER_REGION)]

    def use(self, pages, place, *, writes):
        """How many pages move if *place* uses *pages*; faults move whole regions."""
        moved = sum(self.bring(page, place) for page in self.regions(pages, place) if page < COUNT)
        if writes:
            for page in pages:
                self.places[page] = {place}
        return moved

    def forget(self, pages):
        for page in pages:
            self.mostly[page] = False
            self.places[page] = {min(self.places[page])}  # the host has the lowest number


@given(st.lists(steps, max_size=12))
def test_pages_are_where_a_model_of_each_page_has_them(history):
    pages, model = Pages(SIZE), Model()
    for op, (start, stop), place in history:
        touched = range(start // PAGE, -(-stop // PAGE))
        if op == "prefetch":
            moves = pages.prefetch(start, stop, place)
            assert moves.to_device + moves.to_host == sum(model.bring(page, place) for page in touched)
        elif op in ("mostly", "not mostly"):
            is_mostly = op == "mostly"
            pages.advise(start, stop, Advice.SET_READ_MOSTLY if is_mostly else Advice.UNSET_READ_MOSTLY, HOST)
            if is_mostly:
                model.mostly[touched.start : touched.stop] = [True] * len(touched)
            else:
                model.forget(touched)
        elif op in ("see", "set"):
            moves = pages.use_on_host(start, stop, writes=op == "set")
            assert moves.to_host == model.use(touched, HOST, writes=op == "set")
        else:
            device = max(place, 0)
            moves = pages.use_on_device(device, start, stop, writes=op == "write")
            assert moves.to_device == model.use(touched, device, writes=op == "write")
            assert pages.use_on_device(device, start, stop, writes=op == "write").rounds == 0
        assert pages.on_host() == sum(HOST in places for places in model.places)
        for device in (0, 1):
            assert pages.on_device(device) == sum(device in places for places in model.places)


def test_a_device_maps_pages_that_prefer_the_host_anew_after_they_have_moved():
    size = BLOCK
    pages = Pages(size)
    pages.advise(0, size, Advice.SET_PREFERRED_LOCATION, HOST)
    rounds = [pages.use_on_device(0, 0, REGION, writes=False).rounds for _ in range(2)]
    pages.prefetch(0, size, 0)
    pages.prefetch(0, size, HOST)
    rounds.append(pages.use_on_device(0, 0, REGION, writes=False).rounds)
    assert rounds == [1, 0, 1]


def test_a_device_that_makes_room_moves_its_own_pages_only():
    pages = Pages(BLOCK)
    pages.use_on_device(0, 0, REGION, writes=True)
    pages.use_on_device(1, REGION, 2 * REGION, writes=True)
    assert pages.evict(1, 0) == PER_REGION
    assert (pages.on_device(0), pages.on_device(1)) == (PER_REGION, 0)
