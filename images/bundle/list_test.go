package bundle_test

import (
	"bytes"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/bundletest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/bundle"
)

// TestIndex: images have names, everything else has none.
func TestIndex(t *testing.T) {
	t.Parallel()
	raw := bundletest.Bytes(t, bundletest.Options(t), bundletest.Artifacts(t))
	m := require.Value(v1.ParseIndexManifest(bytes.NewReader(members(t, raw)[1].content)))(t)
	named := 0
	for n, d := range m.Manifests {
		_, ref := d.Annotations["org.opencontainers.image.ref.name"]
		_, full := d.Annotations["io.containerd.image.name"]
		if ref != full {
			t.Errorf("entry %d: %v", n, d.Annotations)
		}
		if ref {
			named++
			if n != named+1 { // behind the bundle's manifest and its signature
				t.Errorf("entry %d has a name after one without", n)
			}
		}
	}
	assert.Equal(t, 4, named) // two tags, one tag, the base
	assert.Equal(t, bundle.MediaType, m.Manifests[0].ArtifactType)
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	p := bundletest.Plan(t, bundletest.Options(t), bundletest.Artifacts(t))
	raw := require.Value(p.List.Encode())(t)
	require.Value(bundle.Decode(raw))(t)
	first := p.List.Blobs[0].Digest.String()
	for name, change := range map[string][2]string{
		"another version":   {`"schema":1`, `"schema":2`},
		"an unknown field":  {`"schema":1`, `"schema":1,"x":1`},
		"white space":       {`{"schema"`, `{ "schema"`},
		"another order":     {`"schema":1,"created":1700000000`, `"created":1700000000,"schema":1`},
		"a tag":             {`"0.2.0"`, `"a b"`},
		"a repository":      {`docker.io/library`, `docker.io/Library`},
		"a path":            {`docker.io/library`, `docker.io/../x`},
		"a kind":            {`"kind":"base"`, `"kind":"bass"`},
		"a blob twice":      {p.List.Blobs[1].Digest.String(), first},
		"another algorithm": {first, strings.Replace(first, "sha256", "sha512", 1)},
		"parts":             {`"schema":1`, `"schema":1,"parts":[1,1]`},
		"bytes behind it":   {`}` + "\x00", ""},
	} {
		changed := strings.Replace(string(raw)+"\x00", change[0], change[1], 1)
		changed = strings.TrimSuffix(changed, "\x00")
		if name == "bytes behind it" {
			changed = string(raw) + "{}"
		}
		assert.ErrorIsf(t, assert.Err(bundle.Decode([]byte(changed))), bundle.ErrUnsound, "%s", name)
	}
}

func FuzzDecode(f *testing.F) {
	p := bundletest.Plan(f, bundletest.Options(f), bundletest.Artifacts(f))
	f.Add(require.Value(p.List.Encode())(f))
	f.Fuzz(func(t *testing.T, raw []byte) {
		l, err := bundle.Decode(raw)
		if err != nil {
			return
		}
		if again := require.Value(l.Encode())(t); !bytes.Equal(raw, again) {
			t.Errorf("%q became %q", raw, again)
		}
	})
}
