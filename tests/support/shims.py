"""A `git` that is killed before a rename or link of its own, or another call that is named."""

from __future__ import annotations

import os
import shutil
import subprocess

from ground import write

#: Counts these calls of git, in one file for all its processes, and kills the one that is to die before it.
SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void step(void) {
    int fd = open(getenv("SHIM_COUNT"), O_WRONLY | O_APPEND | O_CREAT, 0600);
    if (write(fd, "x", 1) == 1 && lseek(fd, 0, SEEK_CUR) == atol(getenv("SHIM_AT"))) kill(getpid(), SIGKILL);
    close(fd);
}
typedef int call(const char *, const char *);
typedef int single(const char *);
int rename(const char *old, const char *new) { step(); return ((call *)dlsym(RTLD_NEXT, "rename"))(old, new); }
int link(const char *old, const char *new) { step(); return ((call *)dlsym(RTLD_NEXT, "link"))(old, new); }
int unlink(const char *path) {
    if (!strcmp(getenv("SHIM_ALSO"), "unlink")) step();
    return ((single *)dlsym(RTLD_NEXT, "unlink"))(path);
}
"""


class Shim:
    """A `git` that dies where it is told to."""

    def __init__(self, folder, monkeypatch, also=""):
        self.count, self._at = f"{folder}/count", f"{folder}/at"
        write(f"{folder}/shim.c", SHIM)
        subprocess.run(("cc", "-shared", "-fPIC", "-o", "shim.so", "shim.c", "-ldl"), cwd=folder, check=True)
        known = f'SHIM_COUNT="{self.count}" SHIM_AT=$(cat "{self._at}") SHIM_ALSO={also} LD_PRELOAD=shim.so'
        known += f' LD_LIBRARY_PATH="{folder}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"'  # the other splits at a space
        write(f"{folder}/bin/git", f'#!/bin/sh\n{known} exec {shutil.which("git")} "$@"\n')
        os.chmod(f"{folder}/bin/git", 0o755)
        monkeypatch.setenv("PATH", f"{folder}/bin:{os.environ['PATH']}")
        self.kill_at(0)

    def kill_at(self, number):
        """At the so-manieth from now on; 0: never."""
        write(self.count, "")
        write(self._at, f"{number}\n")

    def counted(self):
        return os.stat(self.count).st_size
