// A worker of the file-based task mailbox, from its document: claim by rename, result by rename, unlink.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

type task struct {
	ID          string `json:"id"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Priority    int    `json:"priority"`
	Status      string `json:"status"`
	Attempts    int    `json:"attempts"`
	MaxAttempts int    `json:"max_attempts"`
	ClaimedBy   string `json:"claimed_by"`
	ClaimedAt   *int64 `json:"claimed_at"`
	CreatedAt   int64  `json:"created_at"`
	UpdatedAt   int64  `json:"updated_at"`
}

func main() {
	box := os.Args[1]
	for {
		names, _ := filepath.Glob(filepath.Join(box, "inbox", "task*.json"))
		if len(names) == 0 {
			return
		}
		for _, name := range names {
			id := strings.TrimSuffix(filepath.Base(name), ".json")
			claimed := filepath.Join(box, "processing", id+".json")
			if os.Rename(name, claimed) != nil {
				continue // another worker claimed it
			}
			data, err := os.ReadFile(claimed)
			var one task
			if err != nil || json.Unmarshal(data, &one) != nil || one.ID != id {
				fmt.Fprintln(os.Stderr, "cannot read", id, string(data))
				os.Exit(1)
			}
			result := map[string]any{"task_id": id, "status": "completed", "verdict": "pass", "output": id + " by go"}
			text, _ := json.Marshal(result)
			scratch := filepath.Join(box, ".tmp", id+"_result.json.tmp")
			os.WriteFile(scratch, text, 0o644)
			os.Rename(scratch, filepath.Join(box, "outbox", id+"_result.json"))
			os.Remove(claimed)
			fmt.Println(id)
		}
	}
}
