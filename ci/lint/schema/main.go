// Command schema writes the JSON schemas in docs/schema that follow from Go types: of the status file, of
// recipes and of plans. The test compares them, and checks all schemas against real files.
//
// The schema of matrix.yaml is written by hand, because its reader is no type.
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

	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/bundle"
	"github.com/driver-container/driver-container/images/fleet"
	"github.com/driver-container/driver-container/images/gpus"
	"github.com/driver-container/driver-container/images/lockfile"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/releases"
	"github.com/driver-container/driver-container/images/status"
	"github.com/driver-container/driver-container/images/verify"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/node/host"
	"github.com/driver-container/driver-container/node/preflight"
	nodestatus "github.com/driver-container/driver-container/node/status"
)

// dir is the folder of the schemas, relative to the project's folder.
const dir = "docs/schema"

// generated are the schemas that are made from types, by the name of their file.
var generated = map[string]struct {
	title string
	of    reflect.Type
}{
	"inspect.schema.json":     {"An image, as driver-build inspect -o json prints it", reflect.TypeFor[verify.Inspection]()},
	"bundle-list.schema.json": {"What a bundle holds, as driver-build bundle list -o json prints it", reflect.TypeFor[bundle.List]()},
	"status.schema.json":      {"/run/nvidia/driver-status.json: what is known of the driver on a node", reflect.TypeFor[nodestatus.Snapshot]()},
	"bundle-have.schema.json": {"What a repository has, as driver-build bundle have prints it", reflect.TypeFor[bundle.Stock]()},
	"compile.schema.json":     {"A set of modules, as nvidia-driver compile -o json prints it", reflect.TypeFor[kbuild.Set]()},
	"bake.schema.json":        {"What was baked, as nvidia-driver bake -o json prints it", reflect.TypeFor[host.Baked]()},
	"fleet.schema.json":       {"What a fleet needs, as driver-build fleet -o json prints it", reflect.TypeFor[fleet.Plan]()},
	"recipe.schema.json":      {"The recipe of an image, as driver-build --dry-run prints it", reflect.TypeFor[recipe.Recipe]()},
	"lock.schema.json":        {"matrix.lock of driver-build: what the images are made from. docs/lock.md explains it", reflect.TypeFor[lockfile.Lock]()},
}

// lists are those of what programs print as a list: an object with schema and items.
var lists = map[string]struct {
	title string
	of    reflect.Type // of an item
}{
	"plan.schema.json":          {"The builds that are due, as driver-build plan -o json prints them", reflect.TypeFor[status.Task]()},
	"list.schema.json":          {"Pairs of the matrix, as driver-build list -o json prints them", reflect.TypeFor[batch.Pair]()},
	"check.schema.json":         {"Pairs and what was found out about them, as driver-build check -o json prints them", reflect.TypeFor[status.Checked]()},
	"kernels.schema.json":       {"Kernels of the repositories, as driver-build kernels -o json prints them", reflect.TypeFor[status.OfferedKernel]()},
	"drivers.schema.json":       {"Branches of the driver, as driver-build drivers -o json prints them", reflect.TypeFor[releases.Coverage]()},
	"gpus.schema.json":          {"GPUs and their drivers, as driver-build gpus -o json prints them", reflect.TypeFor[gpus.Answer]()},
	"verify.schema.json":        {"Findings about an image, as driver-build verify -o json prints them", reflect.TypeFor[verify.Finding]()},
	"bundle-verify.schema.json": {"Findings about a bundle, as driver-build bundle verify -o json prints them", reflect.TypeFor[bundle.Finding]()},
	"cache.schema.json":         {"What takes room in the cache, as driver-build cache -o json prints it", reflect.TypeFor[fetch.Kind]()},
	"doctor.schema.json":        {"Answers about this machine, as driver-build doctor -o json prints them", reflect.TypeFor[session.Finding]()},
	"preflight.schema.json":     {"Checks of a node, as nvidia-driver preflight -o json prints them", reflect.TypeFor[preflight.Check]()},
	"holders.schema.json":       {"Processes that have the driver open, as nvidia-driver holders -o json prints them", reflect.TypeFor[kmod.Holder]()},
}

// listSchema is the version of the shape of lists.
const listSchema = session.ListSchema

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
	add := func(name, title string, of reflect.Type, wrap func(map[string]any) map[string]any) error {
		s := maker{root: root, definitions: map[string]any{}, comments: map[string]map[string]string{}}
		top, err := s.of(of)
		if err != nil {
			return fmt.Errorf("make %s: %w", name, err)
		}
		object := map[string]any{"$schema": "http://json-schema.org/draft-07/schema#", "title": title, "definitions": s.definitions}
		maps.Copy(object, wrap(top))
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		if err := e.Encode(object); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
		files[name] = b.Bytes()
		return nil
	}
	for name, g := range generated {
		if err := add(name, g.title, g.of, func(top map[string]any) map[string]any { return top }); err != nil {
			return nil, err
		}
	}
	for name, l := range lists {
		if err := add(name, l.title, l.of, listOf); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// listOf is the schema of a list of items.
func listOf(item map[string]any) map[string]any {
	return map[string]any{"type": "object", "additionalProperties": false, "required": []string{"schema", "items"}, "properties": map[string]any{
		"schema": map[string]any{"const": listSchema, "description": "version of this shape, which grows when the meaning of a field changes"},
		"items":  map[string]any{"type": "array", "items": item},
	}}
}

func write(to string, files map[string][]byte) error {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := os.WriteFile(filepath.Join(to, name), files[name], 0o644); err != nil { //nolint:gosec // a file of the project
			return fmt.Errorf("write a schema: %w", err)
		}
	}
	return nil
}
