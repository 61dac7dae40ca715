package strictjson

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"pgregory.net/rapid"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/failure"
)

const digest = `"sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"`

// manifests are sound.
var manifests = []string{
	`{}`,
	`{"schemaVersion":2,"config":{"mediaType":"a","size":1,"digest":` + digest + `},"layers":[]}`,
	` {"schemaVersion":2,"layers":[{"size":3,"digest":` + digest + `,"annotations":{"a":"1","A":"2"}}],"other":{"x":1,"X":2}} `,
}

// damages make two readers disagree, or one of them fail.
var damages = map[string]func(sound string) string{
	"trailing object": func(s string) string { return s + `{}` },
	"trailing text":   func(s string) string { return s + `x` },
	"cut":             func(s string) string { return strings.TrimRight(s, "} ") },
	"two configs":     func(s string) string { return beginning(s, `"config":{"size":2},"config":{"size":1},`) },
	"two of any key":  func(s string) string { return beginning(s, `"new":1,"new":2,`) },
	"other case":      func(s string) string { return beginning(s, `"Layers":[{"size":7}],`) },
	"case inside":     func(s string) string { return beginning(s, `"subject":{"Size":7},`) },
	"deep": func(s string) string {
		return beginning(s, `"new":`+strings.Repeat("[", 101)+strings.Repeat("]", 101)+`,`)
	},
	"very deep": func(s string) string {
		return beginning(s, `"new":`+strings.Repeat("[", 1<<20)+strings.Repeat("]", 1<<20)+`,`)
	},
	"no UTF-8":     func(s string) string { return beginning(s, "\"new\":\"\xff\",") },
	"escaped twin": func(s string) string { return beginning(s, `"new":1,"n\u0065w":2,`) },
	"other type":   func(s string) string { return `["` + strings.Repeat("x", len(s)) + `"]` },
	"nothing":      func(string) string { return "" },
}

// beginning puts members at the beginning of an object.
func beginning(object, members string) string {
	rest := strings.TrimPrefix(strings.TrimSpace(object), "{")
	if rest == "}" {
		members = strings.TrimSuffix(members, ",")
	}
	return "{" + members + rest
}

func TestDamages(t *testing.T) {
	t.Parallel()
	for _, sound := range manifests {
		got := require.Value(Decode[v1.Manifest]([]byte(sound)))(t)
		var want v1.Manifest
		require.NoError(t, json.Unmarshal([]byte(sound), &want))
		assert.Same(t, want, got)
		for name, damage := range damages {
			_, err := Decode[v1.Manifest]([]byte(damage(sound)))
			assert.Equalf(t, failure.Content, failure.KindOf(err), "%s: %.200s: %v", name, sound, err)
			assert.Errorf(t, err, "%s: %.200s", name, sound)
		}
	}
	_, err := Decode[v1.Manifest]([]byte(beginning(manifests[1], `"Layers":null,`)))
	assert.Errorf(t, err, "an empty twin of layers")
	_, err = Decode[v1.Manifest]([]byte(beginning(manifests[1], `"new":1,`)), jsonv2.RejectUnknownMembers(true))
	assert.Errorf(t, err, "an unknown key")
	_, err = Decode[v1.Manifest]([]byte(manifests[1]), jsonv2.RejectUnknownMembers(true))
	assert.NoError(t, err)
}

// TestConfiguration: what encoding/json writes of a configuration is read as it was.
func TestConfiguration(t *testing.T) {
	t.Parallel()
	config := v1.ConfigFile{Architecture: "amd64", Config: v1.Config{
		Labels: map[string]string{"a": "1", "A": "2"}, Volumes: map[string]struct{}{"/v": {}}, Env: []string{"PATH=/bin"},
		Healthcheck: &v1.HealthConfig{Test: []string{"CMD"}, Interval: 3e9},
	}}
	raw := require.Value(json.Marshal(config))(t)
	got := require.Value(Decode[v1.ConfigFile](raw))(t)
	assert.Same(t, config, got)
}

// TestEitherCase: a document with keys in any case is read by their exact names, or refused; never half.
func TestEitherCase(t *testing.T) {
	t.Parallel()
	type pair struct {
		One int `json:"one"`
		Two int `json:"two"`
	}
	names := []string{"one", "two", "One", "TWO", "other"}
	rapid.Check(t, func(rt *rapid.T) {
		values := rapid.MapOfN(rapid.SampledFrom(names), rapid.IntRange(1, 9), 0, 5).Draw(rt, "values")
		raw := require.Value(json.Marshal(values))(rt)
		got, err := Decode[pair](raw)
		wrong := slices.ContainsFunc(slices.Collect(maps.Keys(values)), func(name string) bool { return name == "One" || name == "TWO" })
		assert.Equalf(rt, wrong, err != nil, "%s: %v", raw, err)
		if err == nil {
			assert.Equalf(rt, pair{values["one"], values["two"]}, got, "%s", raw)
		}
	})
}

// FuzzDecode: encoding/json, with which container runtimes read, reads the same of whatever is accepted.
func FuzzDecode(f *testing.F) {
	for _, sound := range manifests {
		f.Add([]byte(sound))
		for name, damage := range damages {
			if name != "very deep" {
				f.Add([]byte(damage(sound)))
			}
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := Decode[v1.Manifest](raw)
		if err != nil {
			if failure.KindOf(err) != failure.Content {
				t.Errorf("%v", err)
			}
			return
		}
		var want v1.Manifest
		err = json.Unmarshal(raw, &want)
		assert.NoError(t, err)
		assert.Same(t, want, got)
		_, err = Decode[v1.Manifest](append(slices.Clip(raw), '{', '}'))
		assert.Errorf(t, err, "with another document behind it")
		if errors.Is(err, errCase) {
			t.Errorf("%v", err)
		}
	})
}
