"""Workers and a cleaner that know the visible folders and nothing of ours: rename, write, remove."""

from __future__ import annotations

import json
import os
import time


class Pit:
    """The snake pit, as its document describes it."""

    ready, claimed = "food", "claimed"

    def ours(self, name):
        return name.startswith("food-") and name.endswith(".md")

    def take(self, name, who):
        return f"food/{name}", f"claimed/{who}.{name}"

    def back(self, name):
        return f"food/{name.partition('.')[2]}"

    def task_id(self, name):
        return name.split("-")[1]

    def publish(self, name, mark):
        """Where the result comes to lie and what it says."""
        return f"done/{name.removesuffix('.md')}.result.md", f"mark={mark}\n"

    def end(self, root, name, who):
        """What is done after publishing; whether the task counts as finished by it."""
        remove(f"{root}/claimed/{who}.{name}")
        return True


class Mailbox:
    """Drover's mailbox."""

    ready, claimed = "inbox", "processing"

    def ours(self, name):
        return name.endswith(".json")

    def take(self, name, who):
        return f"inbox/{name}", f"processing/{name}"

    def back(self, name):
        return f"inbox/{name}"

    def task_id(self, name):
        return name.removesuffix(".json")

    def publish(self, name, mark):
        result = {"task_id": self.task_id(name), "status": "completed", "output": f"mark={mark}", "metadata": {}}
        return f"outbox/{self.task_id(name)}_result.json", json.dumps(result)

    def end(self, root, name, who):
        remove(f"{root}/processing/{name}")
        return True


class Workspace:
    """State in the file's name."""

    ready = claimed = "tasks"

    def ours(self, name):
        return name.endswith("_pending.md")

    def take(self, name, who):
        return f"tasks/{name}", f"tasks/{self.task_id(name)}_inprogress_{who}.md"

    def back(self, name):
        return f"tasks/{name.partition('_inprogress_')[0]}_pending.md" if "_inprogress_" in name else ""

    def task_id(self, name):
        return name.removesuffix("_pending.md")

    def publish(self, name, mark):
        return f"outputs/{self.task_id(name)}_result.md", f"mark={mark}\n"

    def end(self, root, name, who):
        task_id = self.task_id(name)
        return rename(f"{root}/tasks/{task_id}_inprogress_{who}.md", f"{root}/tasks/{task_id}_done.md")


FOLDERS = {"pit": Pit(), "mailbox": Mailbox(), "workspace": Workspace()}


def rename(source, target):
    try:
        os.rename(source, target)
    except FileNotFoundError:
        return False
    return True


def remove(path):
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    return True


def work(job, number, rng):
    """Take what lies there, work for a while or far too long, publish by rename, clear up."""
    folder, who, root = FOLDERS[job.layout], f"stranger{number}", job.root
    for count in range(1_000_000):
        for name in filter(folder.ours, os.listdir(f"{root}/{folder.ready}")):
            source, target = folder.take(name, who)
            if not rename(f"{root}/{source}", f"{root}/{target}"):
                continue
            time.sleep(rng.random() * job.lease * (4 if rng.random() < 0.4 else 0.2))  # its work: part of the test
            mark = f"{who}.{os.getpid()}.{count}"
            place, text = folder.publish(name, mark)
            scratch = f"{root}/.{who}.{os.getpid()}"
            with open(scratch, "w", encoding="utf-8") as file:
                file.write(text)
            os.rename(scratch, f"{root}/{place}")
            if folder.end(root, name, who):
                job.tell("published", folder.task_id(name), mark)
            break
        time.sleep(0.05 + rng.random() * 0.2)  # it is not alone here


def clean(job, rng):
    """What lies claimed and has not been written for some leases goes back, as the cleanup snake's `find` does it."""
    folder, root = FOLDERS[job.layout], job.root
    while True:
        for name in os.listdir(f"{root}/{folder.claimed}"):
            place = folder.back(name)
            try:
                old = time.time() - os.stat(f"{root}/{folder.claimed}/{name}").st_mtime > 2 * job.lease
            except FileNotFoundError:
                continue
            if place and old and rename(f"{root}/{folder.claimed}/{name}", f"{root}/{place}"):
                job.tell("cleaned", name, "")
        time.sleep(rng.random() * job.lease)  # a round now and then
