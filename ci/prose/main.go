// Command prose checks the English of the project as far as a program can: the width of comment lines in Go
// files, scripts, Makefiles and YAML, and phrases that CONTRIBUTING.md replaces by plain ones, in comments
// and in Markdown.
//
//	go run ./ci/prose [FILE...]         report; without files: every file of the repository
//	go run ./ci/prose -wrap FILE...     wrap comment paragraphs that have a line which is too wide
//
// It does not judge style: whether a sentence can be understood is the reader's to say.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

func main() {
	wrap := flag.Bool("wrap", false, "wrap the comments of the files instead of checking them")
	flag.Parse()
	found, err := run(os.Stdout, flag.Args(), *wrap)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "prose:", err)
		os.Exit(2)
	case found > 0:
		fmt.Fprintf(os.Stderr, "prose: %d findings; CONTRIBUTING.md has the rules, `go run ./ci/prose -wrap FILE...` wraps comments\n", found)
		os.Exit(1)
	}
}

// run checks or wraps the named files and returns the number of findings.
func run(w io.Writer, names []string, wrap bool) (int, error) {
	if wrap && len(names) == 0 {
		return 0, fmt.Errorf("-wrap needs the names of files")
	}
	if len(names) == 0 {
		all, err := tracked()
		if err != nil {
			return 0, err
		}
		names = all
	}
	count := 0
	for _, name := range names {
		kind := kindOf(name)
		if kind == none {
			continue
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return count, fmt.Errorf("read a file to check: %w", err)
		}
		if wrap {
			if err := rewrite(name, kind, content); err != nil {
				return count, err
			}
			if content, err = os.ReadFile(name); err != nil {
				return count, fmt.Errorf("read a wrapped file: %w", err)
			}
		}
		for _, f := range check(kind, content) {
			if wrap && !f.width {
				continue
			}
			fmt.Fprintf(w, "%s:%d: %s\n", name, f.line, f.text)
			count++
		}
	}
	return count, nil
}

// rewrite wraps one file in place, if that changes it.
func rewrite(name string, kind kind, content []byte) error {
	wrapped, err := wrapFile(kind, content)
	if err != nil {
		return fmt.Errorf("wrap the comments of %s: %w", name, err)
	}
	if bytes.Equal(wrapped, content) {
		return nil
	}
	info, err := os.Stat(name)
	if err != nil {
		return fmt.Errorf("wrap the comments of %s: %w", name, err)
	}
	if err := os.WriteFile(name, wrapped, info.Mode().Perm()); err != nil {
		return fmt.Errorf("wrap the comments of %s: %w", name, err)
	}
	return nil
}

// tracked lists the files that git knows or would add.
func tracked() ([]string, error) {
	out, err := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		return nil, fmt.Errorf("list the repository's files with git: %w", err)
	}
	names := strings.Fields(string(out))
	return slices.DeleteFunc(names, func(name string) bool { // deleted in the worktree and not yet in the index
		_, err := os.Lstat(name)
		return err != nil
	}), nil
}
