"""Two NFS clients on one queue: what NFS does differently, and the hammer on both at once.

In a guest: an NFS server, and two mounts with caches of their own, whose processes believe to be on different
machines. Workers, keepers and putters on both are killed, stopped and paused anywhere. Afterwards every task has
exactly one result, that of the claim that was told so. The same with a broken protocol must fail.

    python tests/vm/nfs.py --seconds 60 --version 4.2
"""

from __future__ import annotations

import fcntl
import itertools
import os
import random
import time

import machine

#: Broken protocols, and the real one first.
SCHEMES = ("", "seal skipped", "seal by link", "fixed name")
#: So many tasks a second can be put here.
PUTS = 10
OPTIONS = {"4.2": "vers=4.2", "3": "vers=3"}


def serve(disk):
    """An NFS server in this guest; what it shows is /mnt/export."""
    from guest import load, mount, run

    run("ip", "link", "set", "lo", "up")
    load("nfsd", "nfs", "nfsv4", "nfsv3")
    for place in ("/run", "/var/lib/nfs"):
        mount("tmp", place, "tmpfs")
    for place in ("v4recovery", "sm", "sm.bak", "rpc_pipefs"):
        os.makedirs(f"/var/lib/nfs/{place}")
    for name in ("etab", "rmtab", "state"):
        with open(f"/var/lib/nfs/{name}", "w", encoding="ascii"):
            pass
    os.makedirs("/run/rpcbind", exist_ok=True)
    os.makedirs("/run/sendsigs.omit.d", exist_ok=True)
    run("mkfs.ext4", "-q", "-F", disk)
    mount(disk, "/mnt/export", "ext4")
    mount("nfsd", "/proc/fs/nfsd", "nfsd")
    with open("/proc/fs/nfsd/nfsv4gracetime", "w", encoding="ascii") as file:
        file.write("10")
    run("rpcbind")
    run("rpc.statd", "--no-notify")
    run("exportfs", "-o", "rw,no_root_squash,fsid=0,insecure,no_subtree_check,async", "*:/mnt/export")
    run("rpc.mountd")
    run("rpc.nfsd", "4")


def clients(version):
    """Two mounts with caches of their own."""
    from guest import run

    source = "127.0.0.1:/" if version != "3" else "127.0.0.1:/mnt/export"
    for name in "ab":
        os.makedirs(f"/mnt/{name}", exist_ok=True)
        run("mount.nfs", source, f"/mnt/{name}", "-o", f"{OPTIONS[version]},nosharecache")
    for name in "ab":  # a server that has just started grants no locks: whoever had some may come back for them
        with open(f"/mnt/{name}/lock", "w", encoding="ascii") as file:
            fcntl.flock(file, fcntl.LOCK_EX)


def inside(job):
    """What the guest is booted for."""
    from guest import run

    serve(job["disk"])
    clients(job["version"])
    found = {}
    if job["facts"]:
        import nfsfacts

        found["facts"] = nfsfacts.look("/mnt/a", "/mnt/b")
    for scheme in job["schemes"]:
        found[scheme] = hammer(scheme, job)
    run("umount", "/mnt/a", "/mnt/b")
    return found


def hammer(scheme, job):
    """One protocol under the hammer; what is wrong, as the server has it. A broken one until that is noticed."""
    from hammer import EXPORT, Hammer, Side, is_noticed, settle
    from taskpit.store.opening import init

    name = f"q-{scheme.replace(' ', '-')}"
    root = f"{EXPORT}/{name}"
    init(root, "pit")
    ledger = f"/mnt/ledger-{name}"
    fd = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    sides = [Side(f"/mnt/{one}/{name}", f"host-{one}", fd, scheme) for one in "ab"]
    rng = random.Random(job["seed"])
    begun = time.monotonic()
    run = Hammer(sides, job["workers"], rng)
    seconds = job["control"] if scheme else job["seconds"]
    tasks = job["tasks"] or round(PUTS * seconds)  # so that there is something to lose till the end
    if scheme:
        run.run((f"{1 + number:04d}" for number in itertools.count()), seconds, lambda: is_noticed(root, ledger))
    else:
        run.run([f"{1 + number:04d}" for number in range(tasks)], seconds)
    found = settle(root, ledger, sides[0])
    return {**run.counts, **found, "seconds": round(time.monotonic() - begun, 1)}


def main():
    """Each version that was asked for."""
    parser = machine.arguments(__doc__.partition("\n")[0])
    parser.add_argument("--version", action="append", choices=tuple(OPTIONS))
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--control-seconds", type=float, default=30.0, help="how long each broken protocol is tried")
    parser.add_argument("--workers", type=int, default=6, help="on each client")
    parser.add_argument("--tasks", type=int, default=0, help="default: as many as can be put in that time")
    parser.add_argument("--facts", action="store_true", help="also measure what NFS does differently")
    parser.add_argument("--no-controls", action="store_true")
    args = parser.parse_args()
    if machine.skip(args, "rpc.nfsd", "mount.nfs", "rpcbind", "rpc.statd", "exportfs", "mkfs.ext4", "ip"):
        return
    report, failures = {}, []
    for version in args.version or ("4.2",):
        schemes = SCHEMES[:1] if args.no_controls else SCHEMES
        with machine.Machine() as guest:
            job = {"disk": guest.disk(512), "version": version, "schemes": schemes, "facts": args.facts}
            job |= {"seconds": args.seconds, "control": args.control_seconds, "workers": args.workers}
            job |= {"tasks": args.tasks, "seed": args.seed}
            limit = 120 + len(schemes) * 90 + args.seconds + args.control_seconds * 3
            found = report[version] = guest.run("nfs", job, limit)
            if args.facts:
                print("\n".join(f"NFSv{version}: {fact}" for fact in found["facts"]))
        for scheme in schemes:
            failures += _tell(version, scheme, found[scheme])
    machine.conclude(args, report, failures)


def _tell(version, scheme, found):
    print(
        f"NFSv{version} {scheme or 'as it is'}: {len(found['broken'])} violations; {found['tasks']} tasks, "
        f"{found['kills']} kills, {found['stops']} stops, {found['claims']} claims, {found['reclaimed']} reclaims, "
        f"{found['lost']} late ends refused, {found['set aside']} set aside, {found['seconds']} s",
        flush=True,
    )
    if not scheme:
        for trouble, times in found["troubles"].items():
            print(f"  {times} x {trouble}", flush=True)
        return [f"NFSv{version}: {line}" for line in found["broken"][:20]]
    return [] if found["broken"] else [f"NFSv{version}: {scheme!r} was not noticed, so this run proves nothing"]


if __name__ == "__main__":
    main()
