package helm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"go.yaml.in/yaml/v4"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/driver-container/driver-container/ci/cluster/control"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// valuePaths returns the paths of all values of values.yaml, of those that have values below them, too.
func valuePaths(t *testing.T) []string {
	t.Helper()
	var values map[string]any
	require.NoError(t, yaml.Unmarshal(require.Value(os.ReadFile(filepath.Join(chart, "values.yaml")))(t), &values))
	var paths []string
	var walk func(at string, below map[string]any)
	walk = func(at string, below map[string]any) {
		for name, value := range below {
			paths = append(paths, at+name)
			if deeper, ok := value.(map[string]any); ok {
				walk(at+name+".", deeper)
			}
		}
	}
	walk("", values)
	slices.Sort(paths)
	return paths
}

// nulls writes a file of values in which keys have no value, and returns its path.
func nulls(t *testing.T, paths []string) string {
	t.Helper()
	values := map[string]any{}
	for _, path := range paths { // a group comes before what is in it
		at := values
		names := strings.Split(path, ".")
		last := len(names) - 1
		for _, name := range names[:last] {
			below, there := at[name]
			if !there {
				below = map[string]any{}
				at[name] = below
			}
			at, there = below.(map[string]any)
			if !there {
				break
			}
		}
		if at != nil {
			at[names[last]] = nil
		}
	}
	file := filepath.Join(t.TempDir(), "nulls.yaml")
	require.NoError(t, os.WriteFile(file, require.Value(yaml.Marshal(values))(t), 0o600))
	return file
}

// meant reports whether helm and the chart mean an error for people: it is a complaint of the schema or of a template, in which nothing
// of the template's own life shows.
func meant(err error) bool {
	return !regexp.MustCompile(`nil pointer|<nil>|executing|error calling|can't evaluate|YAML parse error`).MatchString(err.Error())
}

var strict = serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()

// valid returns an error unless each object has the fields and the types of its kind, and no text is an absent value.
// Kinds of other projects are not looked at.
func valid(rendered string) error {
	if strings.Contains(rendered, "<nil>") {
		return errors.New("<nil> is in the objects")
	}
	for object := range strings.SplitSeq(rendered, "\n---\n") {
		_, _, err := strict.Decode([]byte(strings.TrimPrefix(object, "---\n")), nil, nil)
		if err != nil && !runtime.IsNotRegisteredError(err) {
			return fmt.Errorf("%w in\n%s", err, object)
		}
	}
	return nil
}

// emptied renders a set of values with keys that have no value. It returns how helm or the chart refuses them, "" if the
// objects are valid.
func emptied(t *testing.T, values string, paths []string) (refusal string, err error) {
	t.Helper()
	out, err := template(t, "--values", values, "--values", nulls(t, paths))
	switch {
	case err == nil:
		return "", valid(out)
	case meant(err):
		return err.Error(), nil
	default:
		return "", err
	}
}

// A key without a value has its default or empties what it is for, or the refusal names it.
func TestEmptyKey(t *testing.T) {
	control.Gate(t)
	each(t, valuePaths(t), func(_ context.Context, path string) error {
		refusal, err := emptied(t, "testdata/values/options.yaml", []string{path})
		if err == nil && refusal != "" && !strings.Contains(refusal, path) {
			err = errors.New(refusal)
		}
		if err != nil {
			return fmt.Errorf("%s without a value: %w", path, err)
		}
		return nil
	})
}

// Any keys together may have no value. A draw has half of the keys: 50 draws have each pair of keys, also with what the sets
// of values switch on.
func TestEmptyKeys(t *testing.T) {
	control.Gate(t)
	needed := regexp.MustCompile(`^(image|image[.].*|driver|os)$`) // no default is right for all
	paths := slices.DeleteFunc(valuePaths(t), needed.MatchString)
	random := rand.New(rand.NewPCG(47, 18))
	sets := glob(t, "testdata/values/*.yaml")
	type draw struct {
		values string
		paths  []string
	}
	draws := make([]draw, 50)
	together := map[[2]string]bool{}
	for i := range draws {
		some := slices.DeleteFunc(slices.Clone(paths), func(string) bool { return random.IntN(2) == 0 })
		draws[i] = draw{sets[i%len(sets)], some}
		for _, first := range some {
			for _, second := range some {
				together[[2]string{first, second}] = true
			}
		}
	}
	assert.Equalf(t, len(paths)*len(paths), len(together), "pairs of keys that some draw has")
	var refusals atomic.Int32
	each(t, draws, func(_ context.Context, d draw) error {
		refusal, err := emptied(t, d.values, d.paths)
		if err != nil {
			return fmt.Errorf("%s with %q without values: %w", d.values, d.paths, err)
		}
		if refusal != "" {
			refusals.Add(1)
		}
		return nil
	})
	if refusals.Load() > 15 {
		t.Errorf("%d of %d draws are refused, which shows too little", refusals.Load(), len(draws))
	}
}
