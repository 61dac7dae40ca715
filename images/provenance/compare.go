package provenance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Bounds of a predicate that is read. That of an image with 200 packages has 50 kB.
const (
	maxPredicate    = 4 << 20 // bytes
	maxDependencies = 20_000
	maxDepth        = 32 // of the parameters
)

// ErrFormat means that bytes are no provenance that can be compared.
var ErrFormat = errors.New("not a provenance of this build type")

// attested is a predicate as it is read: of any version of driver-build, so the parameters can be any.
type attested struct {
	BuildDefinition struct {
		BuildType    string         `json:"buildType"`
		External     map[string]any `json:"externalParameters"`
		Internal     map[string]any `json:"internalParameters"`
		Dependencies []Resource     `json:"resolvedDependencies"`
	} `json:"buildDefinition"`
	RunDetails struct {
		Builder Builder `json:"builder"`
	} `json:"runDetails"`
}

// Compare says in words what differs between an attested provenance and that of a rebuild: parameters,
// dependencies and builder, one difference a line; none: the rebuild had the same inputs. What is of one run
// (metadata, byproducts) is not compared. Errors are ErrFormat.
func Compare(attestedBytes, rebuiltBytes []byte) (differences []string, err error) {
	a, err := decode(attestedBytes)
	if err != nil {
		return nil, fmt.Errorf("the attested provenance: %w", err)
	}
	b, err := decode(rebuiltBytes)
	if err != nil {
		return nil, fmt.Errorf("the provenance of the rebuild: %w", err)
	}
	if a.RunDetails.Builder.ID != b.RunDetails.Builder.ID {
		differences = append(differences, fmt.Sprintf("the builder was %q, now it is %q", a.RunDetails.Builder.ID, b.RunDetails.Builder.ID))
	}
	for _, c := range []struct {
		what string
		a, b any
	}{
		{"builder", mapOf(a.RunDetails.Builder.Version), mapOf(b.RunDetails.Builder.Version)},
		{"parameter", a.BuildDefinition.External, b.BuildDefinition.External},
		{"internal parameter", a.BuildDefinition.Internal, b.BuildDefinition.Internal},
	} {
		one, two := map[string]string{}, map[string]string{}
		flatten(one, "", c.a)
		flatten(two, "", c.b)
		differences = append(differences, compareMaps(c.what, one, two)...)
	}
	return append(differences, compareDependencies(a.BuildDefinition.Dependencies, b.BuildDefinition.Dependencies)...), nil
}

func decode(data []byte) (a attested, err error) {
	if len(data) > maxPredicate {
		return a, fmt.Errorf("%w: larger than %d bytes", ErrFormat, maxPredicate)
	}
	if err := checkDepth(data); err != nil {
		return a, err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&a); err != nil {
		return a, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return a, fmt.Errorf("%w: something follows its end", ErrFormat)
	}
	switch {
	case a.BuildDefinition.BuildType != BuildType:
		return a, fmt.Errorf("%w: the build type is %.200q, this program compares %s", ErrFormat, a.BuildDefinition.BuildType, BuildType)
	case len(a.BuildDefinition.Dependencies) > maxDependencies:
		return a, fmt.Errorf("%w: more than %d dependencies", ErrFormat, maxDependencies)
	}
	return a, nil
}

// checkDepth refuses documents that nest deeper than any parameter does.
func checkDepth(data []byte) error {
	depth := 0
	for d := json.NewDecoder(bytes.NewReader(data)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrFormat, err)
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			if depth++; depth > maxDepth {
				return fmt.Errorf("%w: it nests deeper than %d", ErrFormat, maxDepth)
			}
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
	}
}

func mapOf(words map[string]string) any {
	all := map[string]any{}
	for name, value := range words {
		all[name] = value
	}
	return all
}

// flatten writes the leaves of a value into a map by their paths: "kernels[0]".
func flatten(into map[string]string, path string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for name, inner := range v {
			flatten(into, strings.TrimPrefix(path+"."+name, "."), inner)
		}
	case []any:
		for n, inner := range v {
			flatten(into, path+"["+strconv.Itoa(n)+"]", inner)
		}
	default:
		into[path] = fmt.Sprint(v)
	}
}

// compareMaps says what differs between two maps, sorted by key.
func compareMaps(what string, a, b map[string]string) (all []string) {
	keys := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		was, before := a[key]
		is, now := b[key]
		switch {
		case !before:
			all = append(all, fmt.Sprintf("%s %s is %q, the attested provenance has none", what, key, is))
		case !now:
			all = append(all, fmt.Sprintf("%s %s was %q, now there is none", what, key, was))
		case was != is:
			all = append(all, fmt.Sprintf("%s %s was %q, now it is %q", what, key, was, is))
		}
	}
	return all
}

// compareDependencies compares what was read by role and name. Another address of the same bytes is no
// difference.
func compareDependencies(a, b []Resource) []string {
	return compareMaps("dependency", digestsByName(a), digestsByName(b))
}

func digestsByName(list []Resource) map[string]string {
	all := map[string]string{}
	for _, d := range sorted(list) {
		name := d.Name
		if name == "" {
			name = d.URI
		}
		key := strings.TrimSpace(d.Annotations[noteRole] + " " + name)
		all[key] = strings.TrimSpace(all[key] + " " + digestText(d))
	}
	return all
}
