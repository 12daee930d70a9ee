# Stands in for a planner: an agent would read "$TASKPIT_FILE" and write these lines itself.
cat > parts.jsonl <<END
{"id": "outline", "title": "Write the outline", "check": "test -s outline.txt"}
{"id": "one", "title": "Write chapter one", "needs": ["outline"], "check": "test -s one.txt"}
{"id": "two", "title": "Write chapter two", "needs": ["outline"], "check": "test -s two.txt"}
END
pit split "$TASKPIT_TASK" -F parts.jsonl
