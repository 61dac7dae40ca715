// Command chart writes the generated files of the Helm chart: its README and the descriptions of its schema
// from the comments of values.yaml, and the files that its templates need from the packages that own them.
//
// It does not check the chart: helm does, in ci/cluster/helm. The fast test of this package fails when a
// file is out of date.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

func main() {
	root := flag.String("root", ".", "the project's folder")
	flag.Parse()
	if err := generate(*root); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// generate writes every generated file below root whose content has changed.
func generate(root string) error {
	files, err := Files(root)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := write(filepath.Join(root, name), files[name]); err != nil {
			return err
		}
	}
	return nil
}

// write does not touch a file that is up to date, so that nothing that depends on it is rebuilt.
func write(path string, content []byte) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, content) {
		return nil
	}
	if err := os.WriteFile(path, content, 0o644); err != nil { //nolint:gosec // a file of the repository
		return fmt.Errorf("write a generated file: %w", err)
	}
	return nil
}
