"""What runs print and leave."""

from __future__ import annotations

from hashlib import sha256

from taskpit.errors import Invalid, Lost, NotFound, TaskpitError, TooLarge
from taskpit.model import Claim, End, Said
from taskpit.store import run_files
from taskpit.store.port import Artifact
from taskpit.testing.chapters.steps import Steps

#: Names that lead somewhere else, or nowhere.
FORGED = ("", ".", "..", "../x", "a/b", "/etc/passwd", ".hidden", "a\0b", "a\nb", "ü", "x" * 65, "a..b")


class Filing(Steps):
    """Logs that grow, and files that are kept with a task."""

    def running(self) -> Claim:
        """A task that somebody has."""
        self.put(self.task(1))
        return self.take()

    def not_kept(self, kind: type[TaskpitError], claim: Claim, name: str, data: bytes, digest: str = "") -> None:
        """It is not kept, for this reason."""
        try:
            self.store.keep_artifact(claim, name, data, digest or sha256(data).hexdigest())
        except kind:
            return
        raise AssertionError(f"{name!r} was kept")

    def test_a_log_is_read_while_it_grows(self) -> None:
        """And as a working log like any other once its run is over."""
        claim = self.running()
        assert self.store.read_log(claim.task.id, 0, 100) == (b"", 0)
        assert self.store.add_log(claim, 0, b"one\n") == 4
        assert self.store.read_log(claim.task.id, 0, 100) == (b"one\n", 4)
        assert self.store.add_log(claim, 4, b"two\0\xff\n") == 10
        assert self.store.read_log(claim.task.id, 4, 3) == (b"two", 10)
        place = self.store.end_log(claim)
        assert place
        result = self.done(claim).result
        assert result is not None
        self.store.finish([self.done(claim).replace(result=result.replace(log=place))])
        assert self.store.read_log(claim.task.id, 0, 100) == (b"one\ntwo\0\xff\n", 10)
        assert self.store.read_log(claim.task.id, 4, 3) == (b"two", 10)

    def test_a_piece_of_a_log_that_comes_again_is_there_once(self) -> None:
        """Whole, in part, or together with more; one that leaves a gap is not taken."""
        claim = self.running()
        for start, data, size in ((0, b"abc", 3), (0, b"abc", 3), (1, b"bcde", 5), (2, b"c", 5), (9, b"x", 5)):
            assert self.store.add_log(claim, start, data) == size
        assert self.store.read_log(claim.task.id, 0, 100) == (b"abcde", 5)

    def test_a_log_begins_again(self) -> None:
        """Where what is printed was cut."""
        claim = self.running()
        self.store.add_log(claim, 0, b"old")
        assert self.store.add_log(claim, 0, b"") == 0
        assert self.store.add_log(claim, 0, b"n") == 1
        assert self.store.read_log(claim.task.id, 0, 100) == (b"n", 1)

    def test_a_log_has_an_end(self) -> None:
        """What is beyond it is refused, and nothing is changed."""
        claim = self.running()
        self.store.add_log(claim, 0, b"old")
        try:
            self.store.add_log(claim, run_files.LARGEST_LOG, b"x")
        except TooLarge:
            pass
        else:
            raise AssertionError("it was taken")
        assert self.store.read_log(claim.task.id, 0, 100) == (b"old", 3)

    def test_nobody_adds_to_what_another_has(self) -> None:
        """Neither to its log nor to its files."""
        claim = self.running()
        self.store.add_log(claim, 0, b"first")
        assert self.finish(End(claim=claim)) is Said.OK
        other = self.take("other")
        for act in (
            lambda: self.store.add_log(claim, 0, b"late"),
            lambda: self.store.keep_artifact(claim, "a", b"x", sha256(b"x").hexdigest()),
        ):
            try:
                act()
            except Lost:
                continue
            raise AssertionError("it was taken")
        assert self.store.read_log(claim.task.id, 0, 100) == (b"", 0)
        assert self.store.artifacts(claim.task.id) == []
        assert self.store.add_log(other, 0, b"second") == 6

    def test_a_log_of_nobody(self) -> None:
        """Is not there."""
        try:
            self.store.read_log(self.id(9), 0, 10)
        except NotFound:
            return
        raise AssertionError("it was found")

    def test_files_are_kept_with_a_task(self) -> None:
        """Also when it is done, and the last of one name counts."""
        claim = self.running()
        for name, data in (("b.bin", bytes(range(256))), ("a.txt", b"old"), ("a.txt", b"new"), ("a.txt", b"new")):
            self.store.keep_artifact(claim, name, data, sha256(data).hexdigest())
        self.store.finish([self.done(claim)])
        assert self.store.artifacts(claim.task.id) == [
            Artifact(name="a.txt", size=3, sha256=sha256(b"new").hexdigest()),
            Artifact(name="b.bin", size=256, sha256=sha256(bytes(range(256))).hexdigest()),
        ]
        assert self.store.read_artifact(claim.task.id, "a.txt") == b"new"
        assert self.store.read_artifact(claim.task.id, "b.bin") == bytes(range(256))

    def test_files_that_are_not_kept(self) -> None:
        """Names that lead elsewhere, other bytes than were meant, too many, too large."""
        claim = self.running()
        for name in FORGED:
            self.not_kept(Invalid, claim, name, b"x")
        self.not_kept(Invalid, claim, "cut", b"the whole"[:4], sha256(b"the whole").hexdigest())
        self.not_kept(Invalid, claim, "digest", b"x", "../../x")
        self.not_kept(TooLarge, claim, "large", bytes(run_files.LARGEST_ARTIFACT + 1))
        for number in range(run_files.MOST_ARTIFACTS):
            self.store.keep_artifact(claim, f"n{number}", b"x", sha256(b"x").hexdigest())
        self.not_kept(TooLarge, claim, "more", b"x")
        self.store.keep_artifact(claim, "n0", b"y", sha256(b"y").hexdigest())
        assert len(self.store.artifacts(claim.task.id)) == run_files.MOST_ARTIFACTS

    def test_a_file_that_is_not_kept_is_not_found(self) -> None:
        """Whatever it is called."""
        claim = self.running()
        for name in ("a.txt", *FORGED):
            try:
                self.store.read_artifact(claim.task.id, name)
            except (NotFound, Invalid):
                continue
            raise AssertionError(f"{name!r} was found")
