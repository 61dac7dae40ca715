// Command chart writes the generated files of the Helm chart: its README and the descriptions of its schema
// from the comments of values.yaml, the files that its templates need, copied from the packages and folders
// that own them, and, with -helm, the plain manifests from the chart.
//
// It does not check the chart: helm does, in ci/cluster/helm. The fast test of this package fails when a
// file is out of date that can be generated without helm.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	root := flag.String("root", ".", "the project's folder")
	helm := flag.String("helm", "", "helm, to render the plain manifests")
	out := flag.String("manifests", "", "folder for the plain manifests; default: deploy/manifests")
	flag.Parse()
	if err := generate(ctx, *root, *helm, *out); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// generate writes every generated file below root whose content has changed.
func generate(ctx context.Context, root, helm, manifests string) error {
	files, err := Files(root)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := write(filepath.Join(root, name), files[name]); err != nil {
			return err
		}
	}
	if helm == "" {
		return nil
	}
	if manifests == "" {
		manifests = filepath.Join(root, "deploy/manifests")
	}
	rendered, err := Manifests(ctx, root, helm)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(rendered)) {
		if err := write(filepath.Join(manifests, name), rendered[name]); err != nil {
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
	temporary := path + ".new"
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make the folder of a generated file: %w", err)
	}
	if err := os.WriteFile(temporary, content, 0o600); err != nil {
		return fmt.Errorf("write a generated file: %w", err)
	}
	if err := os.Chmod(temporary, 0o644); err != nil {
		return fmt.Errorf("write a generated file: %w", err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("put a generated file in place: %w", err)
	}
	return nil
}
