// A worker of the file-based task mailbox, from its document: claim by rename, result by rename, unlink.
const fs = require("fs");
const box = process.argv[2];
for (;;) {
  const names = fs.readdirSync(`${box}/inbox`).filter((name) => /^task.*\.json$/.test(name));
  if (!names.length) break;
  for (const name of names) {
    const id = name.slice(0, -".json".length);
    try {
      fs.renameSync(`${box}/inbox/${name}`, `${box}/processing/${name}`);
    } catch {
      continue; // another worker claimed it
    }
    const task = JSON.parse(fs.readFileSync(`${box}/processing/${name}`, "utf8"));
    if (task.id !== id) throw new Error(`${task.id} is not ${id}`);
    const result = { task_id: id, status: "completed", verdict: "pass", output: `${id} by node` };
    fs.writeFileSync(`${box}/.tmp/${id}_result.json.tmp`, JSON.stringify(result));
    fs.renameSync(`${box}/.tmp/${id}_result.json.tmp`, `${box}/outbox/${id}_result.json`);
    fs.unlinkSync(`${box}/processing/${name}`);
    console.log(id);
  }
}
