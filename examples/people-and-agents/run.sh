# One work item: the agent builds, a person approves, the agent ships.
set -e
pit init shop --layout activities > log
cd shop
pit add "Ship the shop" >> ../log
pit add "Build it" --parent WI-001 >> ../log
pit add "Write the code" --parent WI-001-A1 >> ../log
pit add "Approve it" --parent WI-001-A1 --set actor=human >> ../log
pit add "Ship it" --parent WI-001 --needs WI-001-A1 >> ../log

echo "== the agent"
pit claim --as agent-7 --lease 1h >> ../log
pit task start WI-001-A1-T1 --as agent-7
pit task done WI-001-A1-T1 --as agent-7 --notes "tests are green"
pit done WI-001-A1 --as agent-7
echo "== nothing for agents now"
pit claim --as agent-7 || echo "(exit code $?)"
echo "== the person"
pit task done WI-001-A1-T2 --human --as ann
echo "== the agent again"
pit claim --as agent-7 >> ../log
pit done WI-001-A2 --as agent-7
pit status
