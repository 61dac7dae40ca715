package oci

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/failure"
)

func TestIsAttachmentTag(t *testing.T) {
	h := HashOf(nil)
	for _, tag := range []string{SignatureTag(h), AttestationTag(h), ReferrersTag(h), LayerTagPrefix + h.Hex} {
		assert.Equalf(t, true, IsAttachmentTag(tag), "tag %s", tag)
	}
	for _, tag := range []string{"535.261.03-debian12", "sha256-", "sha256-" + strings.Repeat("g", 64), h.Hex, ReferrersTag(h) + ".sbom", "layer-cake"} {
		assert.Equalf(t, false, IsAttachmentTag(tag), "tag %s", tag)
	}
}

func TestLayerNames(t *testing.T) {
	t.Parallel()
	img := empty.Image
	var layers []v1.Layer
	for _, by := range []string{"/bin/sh -c #(nop) ADD file", "driver-build v0.3.0: packages", "another-build v1: x"} {
		l := require.Value(random.Layer(100, types.OCILayer))(t)
		layers = append(layers, l)
		img = require.Value(mutate.Append(img, mutate.Addendum{Layer: l, History: v1.History{CreatedBy: by}}))(t)
	}
	names := LayerNames(img)
	for i, want := range []string{"layer 1 of 3", "packages", "layer 3 of 3"} {
		assert.Equal(t, want, names[require.Value(layers[i].Digest())(t)])
	}
	assert.Equal(t, "config", names[require.Value(img.ConfigName())(t)])
	img = require.Value(mutate.ConfigFile(img, &v1.ConfigFile{Architecture: "arm64", RootFS: require.Value(img.ConfigFile())(t).RootFS}))(t)
	assert.Equalf(t, "layer 2 of 3 arm64", namesWithArch(img)[require.Value(layers[1].Digest())(t)], "without a history")
}

func FuzzManifest(f *testing.F) {
	f.Add([]byte(`{"schemaVersion":2,"manifests":[{"digest":"sha256:` + strings.Repeat("a", 64) + `","platform":{"os":"linux","architecture":"amd64"}}]}`))
	f.Add([]byte(`{"schemaVersion":2,"config":{"digest":"sha256:` + strings.Repeat("a", 64) + `"},"layers":[]}`))
	f.Fuzz(func(_ *testing.T, b []byte) {
		_, _ = ChooseManifest("x", "amd64", b, func(v1.Descriptor) ([]byte, error) { return b, nil })
		_, _ = ParseManifest(b)
	})
}

// TestNamed: a name means what lies in this folder, except where it names the host of a registry.
func TestNamed(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, dir := range []string{"dist", "sub/dist", "h.example/dist", "localhost/dist"} {
		require.NoError(t, WriteLayout(t.Context(), dir, "x", imagetest.RandomImage(t, "amd64", 10, "x")))
	}
	for text, want := range map[string]string{
		"dist": "oci:dist", "dist:x": "oci:dist:x", "./dist": "oci:./dist", "sub/dist": "oci:sub/dist", "oci:dist": "oci:dist",
		"absent": "absent", "h.example/dist:x": "h.example/dist:x", "localhost/dist": "localhost/dist",
	} {
		assert.Equalf(t, want, Named(text), "%s", text)
	}
}

func descriptor(text string) v1.Descriptor {
	return v1.Descriptor{MediaType: types.OCIManifestSchema1, Size: int64(len(text)), Digest: HashOf([]byte(text)), ArtifactType: text}
}

func TestAddReferrers(t *testing.T) {
	t.Parallel()
	a, b := descriptor("a"), descriptor("b")
	first := require.Value(AddReferrers(nil, []v1.Descriptor{b}))(t)
	kept := bytes.Replace(first, []byte(`{`), []byte(`{"annotations":{"of":"others"},`), 1)
	both := require.Value(AddReferrers(kept, []v1.Descriptor{b, a}))(t)
	if !strings.Contains(string(both), `"of":"others"`) || bytes.Equal(both, kept) {
		t.Errorf("%s", both)
	}
	got := require.Value(parseReferrers(both))(t).Manifests
	want := []v1.Descriptor{a, b}
	slices.SortFunc(want, func(x, y v1.Descriptor) int { return strings.Compare(x.Digest.Hex, y.Digest.Hex) })
	assert.Same(t, want, got)
	assert.Equalf(t, string(both), string(require.Value(AddReferrers(both, []v1.Descriptor{a}))(t)), "an index that has it")
	changed := a
	changed.Annotations = map[string]string{"x": "y"}
	got = require.Value(parseReferrers(require.Value(AddReferrers(both, []v1.Descriptor{changed}))(t)))(t).Manifests
	if len(got) != 2 || !slices.ContainsFunc(got, func(d v1.Descriptor) bool { return d.Annotations["x"] == "y" }) {
		t.Errorf("%+v; want the entry replaced", got)
	}
	huge := descriptor("h")
	huge.Annotations = map[string]string{"x": strings.Repeat("x", MaxManifest)}
	assert.ErrorContains(t, assert.Err(AddReferrers(both, []v1.Descriptor{huge})), "remove old ones")
	for _, bad := range []string{"", "[]", "{}", `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json"}`} {
		assert.Errorf(t, assert.Err(AddReferrers([]byte(bad), want)), "%q was accepted", bad)
	}
}

func TestExtend(t *testing.T) {
	t.Parallel()
	a := require.Value(NewReferrer(descriptor("s"), "x", []Blob{BytesBlob("x", []byte("layer"), nil)}, nil))(t)
	a.Tag = "sha256-x.sig"
	none := func(v1.Descriptor) ([]byte, error) { return []byte("[]"), nil }
	imageConfig := strings.Replace(string(a.Manifest.Raw), string(EmptyConfig), string(types.OCIConfigJSON), 1)
	for name, raw := range map[string]string{
		"no json": "x", "an index": `{"schemaVersion":2,"manifests":[]}`, "a config that is a list": strings.ReplaceAll(imageConfig, `"x"`, `"y"`),
	} {
		_, err := a.Extend([]byte(raw), none)
		assert.ErrorContainsf(t, err, "extend sha256-x.sig", "%s", name)
	}
	failed := errors.New("no such blob")
	_, err := a.Extend([]byte(strings.ReplaceAll(imageConfig, `"x"`, `"y"`)), func(v1.Descriptor) ([]byte, error) { return nil, failed })
	assert.ErrorIs(t, err, failed)
	other := func(v1.Descriptor) ([]byte, error) {
		return []byte(`{"of":"others","rootfs":{"type":"layers","diff_ids":[]}}`), nil
	}
	added := require.Value(a.Extend([]byte(strings.ReplaceAll(imageConfig, `"x"`, `"y"`)), other))(t)
	config := require.Value(ReadBlob(added.Blobs[1], MaxConfig))(t)
	assert.Equal(t, `{"of":"others","rootfs":{"type":"layers","diff_ids":["`+HashOf([]byte("layer")).String()+`"]}}`, string(config))
	same := require.Value(a.Extend(a.Manifest.Raw, none))(t)
	if !bytes.Equal(same.Manifest.Raw, a.Manifest.Raw) || len(same.Blobs) != 0 {
		t.Errorf("the same content changed the manifest: %s", same.Manifest.Raw)
	}
}

// FuzzReferrers: an index that is accepted can be extended, and then has what was added, once.
func FuzzReferrers(f *testing.F) {
	f.Add([]byte(`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[]}`))
	f.Add([]byte(`{"schemaVersion":2,"manifests":[{"mediaType":"x","size":-1,"digest":"sha256:` + strings.Repeat("a", 64) + `"}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		before, err := parseReferrers(raw)
		if err != nil {
			return
		}
		out, err := AddReferrers(raw, []v1.Descriptor{descriptor("new")})
		if err != nil {
			if len(raw) < MaxManifest/8 {
				t.Errorf("extend an index that was accepted: %v", err)
			}
			return
		}
		after, err := parseReferrers(out)
		if err != nil || len(after.Manifests) == 0 || len(after.Manifests) > len(before.Manifests)+1 {
			t.Errorf("%d entries became %d, %v", len(before.Manifests), len(after.Manifests), err)
		}
	})
}

// TestMalformedImages: what container runtimes refuse, or what two of them read in different ways, is wrong content.
func TestMalformedImages(t *testing.T) {
	t.Parallel()
	source := t.TempDir()
	require.NoError(t, WriteLayout(t.Context(), source, "x", imagetest.RandomImage(t, "amd64", 10, "x")))
	upper := func(config string) string {
		return regexp.MustCompile(`"sha256:[0-9a-f]+"`).ReplaceAllStringFunc(config, func(digest string) string {
			return strings.Replace(strings.ToUpper(digest), "SHA256", "sha256", 1)
		})
	}
	begin := func(members string) func(string) string {
		return func(document string) string { return strings.Replace(document, "{", "{"+members+",", 1) }
	}
	replace := func(old, with string) func(string) string {
		return func(document string) string { return strings.Replace(document, old, with, 1) }
	}
	same := func(document string) string { return document }
	layer := string(types.OCILayer)
	for name, change := range map[string]struct{ manifest, config, index func(string) string }{
		"sound":             {same, same, same},
		"trailing manifest": {func(s string) string { return s + "{}" }, same, same},
		"trailing config":   {same, func(s string) string { return s + "{}" }, same},
		"trailing index":    {same, same, func(s string) string { return s + "{}" }},
		"Layers":            {begin(`"Layers":[]`), same, same},
		"Config":            {same, begin(`"Config":{"User":"x"}`), same},
		"Manifests":         {same, same, begin(`"Manifests":[]`)},
		"two configs":       {begin(`"config":{}`), same, same},
		"schema 1":          {replace(`"schemaVersion":2`, `"schemaVersion":1`), same, same},
		"no schema":         {replace(`"schemaVersion":2`, `"x":2`), same, same},
		"foreign layer":     {replace(layer, string(types.OCIRestrictedLayer)), same, same},
		"encrypted layer":   {replace(layer, "application/vnd.oci.image.layer.v1.tar+gzip+encrypted"), same, same},
		"foreign config":    {replace(string(types.OCIConfigJSON), string(EmptyConfig)), same, same},
		"data":              {replace(`"config":{`, `"config":{"data":"e30=",`), same, same},
		"deep manifest":     {begin(`"x":` + strings.Repeat("[", 1e5) + strings.Repeat("]", 1e5)), same, same},
		"deep config":       {same, begin(`"x":` + strings.Repeat("[", 1e5) + strings.Repeat("]", 1e5)), same},
		"capital diff IDs":  {same, upper, same},
		"no diff IDs": {same, func(s string) string {
			return regexp.MustCompile(`"diff_ids":\[[^]]*\]`).ReplaceAllString(s, `"diff_ids":[]`)
		}, same},
		"one tag twice": {same, same, func(s string) string {
			entry := regexp.MustCompile(`\[(\{.*\})\]`).FindStringSubmatch(s)[1]
			other := regexp.MustCompile(`sha256:[0-9a-f]+`).ReplaceAllString(entry, "sha256:"+strings.Repeat("a", 64))
			return strings.Replace(s, entry, entry+","+other, 1)
		}},
	} {
		dir := damaged(t, source, change.manifest, change.config, change.index)
		for _, ref := range []string{"oci:" + dir, "oci:" + dir + ":x"} {
			l, _ := ParseLocal(ref)
			_, _, err := l.Image(t.Context(), "amd64")
			assert.Equalf(t, name == "sound", err == nil, "%s: %v", name, err)
			assert.Equalf(t, name == "sound", failure.KindOf(err) != failure.Content, "%s: %v", name, err)
		}
	}
}

// damaged is a copy of a layout of one image whose documents are changed, and name each other.
func damaged(t *testing.T, source string, manifest, config, index func(string) string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(source)))
	read := func(name string) string { return string(require.Value(os.ReadFile(filepath.Join(dir, name)))(t)) }
	indexText := read("index.json")
	put := func(in, old, content string) string { // in names content in the place of old
		h := HashOf([]byte(content))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "blobs/sha256", h.Hex), []byte(content), 0o600))
		return regexp.MustCompile(`"size":[0-9]+,"digest":"sha256:`+HashOf([]byte(old)).Hex+`"`).ReplaceAllString(in,
			fmt.Sprintf(`"size":%d,"digest":"%s"`, len(content), h))
	}
	blob := func(in, after string) string {
		at := strings.Index(in, after)
		hex := regexp.MustCompile(`sha256:([0-9a-f]{64})`).FindStringSubmatch(in[at:])[1]
		return read("blobs/sha256/" + hex)
	}
	manifestText := blob(indexText, `"manifests"`)
	configText := blob(manifestText, `"config"`)
	changed := manifest(put(manifestText, configText, config(configText)))
	indexText = index(put(indexText, manifestText, changed))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "index.json"), []byte(indexText), 0o600))
	return dir
}
