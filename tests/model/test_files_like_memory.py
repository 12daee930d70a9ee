"""The file store against the model: whatever is done to both, nobody can tell them apart."""

from __future__ import annotations

import shutil
import tempfile

from hypothesis import settings
from likememory import LikeMemory
from pits import make
from rotation import examples


class FilesLikeMemory(LikeMemory):
    """Every rule does the same to both stores and compares what they say."""

    def begin(self):
        self.root = tempfile.mkdtemp()
        return make(f"{self.root}/pit", self.clock)

    def over(self):
        shutil.rmtree(self.root)


FilesLikeMemory.TestCase.settings = settings(max_examples=examples(36), stateful_step_count=30, deadline=None)
TestFilesLikeMemory = FilesLikeMemory.TestCase
