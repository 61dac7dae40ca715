package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"time"
)

const (
	results = "e2e-results.md"
	heading = "| tier | commit | date | duration | result |\n|---|---|---|---|---|\n"
)

// record writes the line of a tier into the table of results, instead of the tier's earlier line.
func record(ctx context.Context, name string, took time.Duration, result string) error {
	text, err := os.ReadFile(results)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the table of results: %w", err)
	}
	line := fmt.Sprintf("| %s | %s | %s | %s | %s |\n", name, commit(ctx), time.Now().UTC().Format("2006-01-02 15:04"), took, result)
	if err := os.WriteFile(results, []byte(replace(string(text), name, line)), 0o644); err != nil {
		return fmt.Errorf("write the table of results: %w", err)
	}
	return nil
}

// replace returns a table in which the line of a tier is the last one.
func replace(table, name, line string) string {
	var out strings.Builder
	out.WriteString(heading)
	for old := range strings.Lines(strings.TrimPrefix(table, heading)) {
		if !strings.HasPrefix(old, "| "+name+" |") {
			out.WriteString(old)
		}
	}
	return out.String() + line
}

// commit returns the commit that is checked out; "+" stands for changes that are not committed.
func commit(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--abbrev=12", "--dirty=+", "--exclude=*").Output()
	if err != nil {
		return "unknown"
	}
	return string(bytes.TrimSpace(out))
}
