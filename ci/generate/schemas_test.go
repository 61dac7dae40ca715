package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/goldentest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/node/status"
)

const project = "../.."

func read(t *testing.T, path string) []byte {
	t.Helper()
	return require.Value(os.ReadFile(filepath.Join(project, path)))(t)
}

// validator checks documents against a schema of docs/schema.
func validator(t *testing.T, name string) func(document any) error {
	t.Helper()
	valid := goldentest.SchemaValidator(t, name+".schema.json")
	return func(document any) error { return valid(require.Value(json.Marshal(document))(t)) }
}

func fromYAML(t *testing.T, text []byte) any {
	t.Helper()
	var document any
	require.NoError(t, yaml.Unmarshal(text, &document)) // JSON, too
	return document
}

// documents are real files of each schema.
func documents(t *testing.T) map[string][]any {
	t.Helper()
	state := filled(reflect.TypeFor[status.Snapshot]()).(status.Snapshot) //nolint:errcheck,forcetypeassert // it is of this type
	state.State = status.Serving
	lock := bytes.ReplaceAll(read(t, "cmd/driver-build/testdata/matrix.lock"), []byte("DIGEST"), bytes.Repeat([]byte("0"), 64))
	all := map[string][]any{
		"matrix": {fromYAML(t, read(t, "matrix.yaml"))},
		"lock":   {fromYAML(t, read(t, "images/lockfile/testdata/matrix.lock")), fromYAML(t, lock)},
		"recipe": {fromYAML(t, read(t, "images/testdata/recipe-debian12.json")), fromYAML(t, read(t, "images/testdata/recipe-ubuntu16.04.json"))},
		"status": {status.Snapshot{Schema: 1, State: status.Absent}, state},
	}
	for name, p := range schemas { // the tests of the commands check what they print
		switch {
		case p.list:
			all[name] = []any{map[string]any{"schema": session.ListSchema, "items": []any{}}, map[string]any{"schema": session.ListSchema, "items": []any{filled(reflect.TypeOf(p.value))}}}
		case all[name] == nil:
			all[name] = []any{filled(reflect.TypeOf(p.value))}
		}
	}
	return all
}

// filled returns a value of a type whose fields are all set.
func filled(t reflect.Type) any {
	full := reflect.New(t).Elem()
	fill(full)
	return full.Interface()
}

// fill sets every field below a value.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for _, field := range v.Fields() {
			if field.CanSet() {
				fill(field)
			}
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
	case reflect.String:
		v.SetString("x")
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Bool:
		v.SetBool(true)
	default:
	}
}

// free are mappings whose keys are names that people choose.
var free = []string{"mirrors", "systems", "images", "headers", "links"}

// TestRealFiles validates real files, and the same with one key misspelt, for every key of them.
func TestRealFiles(t *testing.T) {
	t.Parallel()
	for name, list := range documents(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			valid := validator(t, name)
			misspelt := 0
			for i, document := range list {
				require.NoErrorf(t, valid(document), "document %d", i)
				plain := fromYAML(t, require.Value(json.Marshal(document))(t))
				misspell(plain, "", func(where string) {
					misspelt++
					assert.Errorf(t, valid(plain), "document %d: a misspelt key %s", i, where)
				})
			}
			if misspelt < 4 {
				t.Errorf("only %d keys were misspelt", misspelt)
			}
		})
	}
}

// misspell renames one key after the other below a value, calls try, and renames it back. Of a list it takes
// the first and the last entry.
func misspell(at any, in string, try func(where string)) {
	switch at := at.(type) {
	case []any:
		for i, item := range at {
			if i == 0 || i == len(at)-1 {
				misspell(item, in+"[]", try)
			}
		}
	case map[string]any:
		for i, key := range slices.Sorted(maps.Keys(at)) {
			value := at[key]
			if slices.Contains(free, in) {
				if i == 0 {
					misspell(value, "", try)
				}
				continue
			}
			delete(at, key)
			at[key+"x"] = value
			try(in + "." + key)
			delete(at, key+"x")
			at[key] = value
			misspell(value, key, try)
		}
	default:
	}
}

// TestWrittenByHand compares the keys that the reader of matrix.yaml knows with those of its schema.
func TestWrittenByHand(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, key := range []string{"amd64", "arm64", // and those that readers take from a list of values
		"min", "max", "broken", "from", "below", "flavours", "reason", "id", "kind", "until", "affects", "fixed", "source"} {
		known[key] = true
	}
	for _, path := range require.Value(filepath.Glob(filepath.Join(project, "images/matrix/*.go")))(t) {
		for _, m := range regexp.MustCompile(`\bm:"([^"!]+)`).FindAllSubmatch(require.Value(os.ReadFile(path))(t), -1) {
			known[string(m[1])] = true
		}
	}
	found := map[string]bool{}
	properties(t, fromYAML(t, read(t, "docs/schema/matrix.schema.json")), found)
	assert.Samef(t, slices.Sorted(maps.Keys(known)), slices.Sorted(maps.Keys(found)), "matrix.schema.json (-reader +schema)")
}

// properties collects the names of all properties, each of which has a description.
func properties(t *testing.T, at any, found map[string]bool) {
	t.Helper()
	switch at := at.(type) {
	case []any:
		for _, item := range at {
			properties(t, item, found)
		}
	case map[string]any:
		below, _ := at["properties"].(map[string]any)
		for name, p := range below {
			found[name] = true
			if text, _ := p.(map[string]any)["description"].(string); text == "" {
				t.Errorf("%s has no description", name)
			}
		}
		for _, value := range at {
			properties(t, value, found)
		}
	default:
	}
}

// TestRefused are mistakes that an editor shows.
func TestRefused(t *testing.T) {
	t.Parallel()
	valid := validator(t, "matrix")
	for _, text := range []string{
		string(read(t, "images/matrix/testdata/five.yaml")),
		"systems: [{id: debian12, base: a:b, archs: [amd64], kernels: [6.1]}]",
		"systems: []\ndrivers: [{version: 535.261.03, archives: {amd64: {url: u, sha256: x}}}]",
		"systems: [{id: debian12, base: a:b, archs: [x86_64], kernels: [6.1]}]\ndrivers: [{version: 535.261.03, debian: {systems: {debian12: 1}, packages: [aa], kernel: [aa]}}]",
		"systems: [{id: debian12, base: a:b, archs: [amd64], kernels: [6.1]}]\ndrivers: [{version: 535.261.03}]",
	} {
		assert.Errorf(t, valid(fromYAML(t, []byte(text))), "%s", text)
	}
}
