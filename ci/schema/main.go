// Command schema writes the JSON schemas in docs/schema that follow from Go types: of the status file, of
// recipes and of plans. The test compares them, and checks all schemas against real files.
//
// The schemas of matrix.yaml and matrix.lock are written by hand, because their readers are no types.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/node/status"
)

// dir is the folder of the schemas, relative to the project's folder.
const dir = "docs/schema"

// generated are the schemas that are made from types, by the name of their file.
var generated = map[string]struct {
	title string
	of    reflect.Type
}{
	"status.schema.json": {"/run/nvidia/driver-status.json: what is known of the driver on a node", reflect.TypeFor[status.Snapshot]()},
	"recipe.schema.json": {"The recipe of an image, as driver-build --dry-run prints it", reflect.TypeFor[recipe.Recipe]()},
	"plan.schema.json":   {"The builds that are due, as driver-build plan --format json prints them", reflect.TypeFor[[]batch.Task]()},
}

func main() {
	root := flag.String("root", ".", "the project's folder")
	flag.Parse()
	files, err := schemas(*root)
	if err == nil {
		err = write(filepath.Join(*root, dir), files)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// schemas returns the generated schemas by the name of their file.
func schemas(root string) (map[string][]byte, error) {
	files := map[string][]byte{}
	for name, g := range generated {
		s := maker{root: root, definitions: map[string]any{}, comments: map[string]map[string]string{}}
		top, err := s.of(g.of)
		if err != nil {
			return nil, fmt.Errorf("make %s: %w", name, err)
		}
		object := map[string]any{"$schema": "http://json-schema.org/draft-07/schema#", "title": g.title, "definitions": s.definitions}
		maps.Copy(object, top)
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		if err := e.Encode(object); err != nil {
			return nil, fmt.Errorf("write %s: %w", name, err)
		}
		files[name] = b.Bytes()
	}
	return files, nil
}

func write(to string, files map[string][]byte) error {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := os.WriteFile(filepath.Join(to, name), files[name], 0o644); err != nil { //nolint:gosec // a file of the project
			return fmt.Errorf("write a schema: %w", err)
		}
	}
	return nil
}
