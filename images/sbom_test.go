package images

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"
	"github.com/spdx/tools-golang/spdxlib"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/goldentest"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/documents"
	"github.com/driver-container/driver-container/images/recipe"
)

var ofRun = regexp.MustCompile(`DIGEST-[0-9]+-[0-9a-f]{16}|urn:uuid:[0-9a-f-]{36}`)

func sbomGolden(t *testing.T, w *imagetest.World, name string, document []byte) {
	t.Helper()
	goldentest.Compare(t, filepath.Join("testdata", name), ofRun.ReplaceAllString(normal(w, string(document)), "OF-THIS-RUN"))
}

// billed reads an image, and adds its recipe if there is one.
func billed(t *testing.T, b *Builder, img v1.Image, r *recipe.Recipe) *documents.ImageContent {
	t.Helper()
	i := require.Value(documents.ReadImage(t.Context(), b.Layers(), "x", img))(t)
	if r != nil {
		require.NoError(t, i.AddRecipe(r))
	}
	return i
}

func document(t *testing.T, f documents.Format, m documents.Model) []byte {
	t.Helper()
	m.Tool = recipe.BuilderInfo{Version: "v0.0.1"}
	return require.Value(documents.SBOM(m, f))(t)
}

// readSPDX judges a document with SPDX's own library and returns it.
func readSPDX(t *testing.T, document []byte) *spdx.Document {
	t.Helper()
	doc := require.Value(spdxjson.Read(bytes.NewReader(document)))(t)
	require.NoError(t, spdxlib.ValidateDocument(doc)) // each relation is between elements that are there
	seen := map[string]bool{}
	for _, p := range doc.Packages {
		id := string(p.PackageSPDXIdentifier)
		if seen[id] || !spdxID.MatchString(id) || p.PackageName == "" || p.PackageDownloadLocation == "" || p.FilesAnalyzed {
			t.Errorf("%+v", p)
		}
		seen[id] = true
	}
	return doc
}

var spdxID = regexp.MustCompile(`^[a-zA-Z0-9.-]+$`)

// TestSBOMGolden: what a build knows, and what an image tells of itself.
func TestSBOMGolden(t *testing.T) {
	t.Parallel()
	r, _ := precompiledRig(t)
	planned := r.plan(t, pair("debian12", newDriver), recipe.Options{Kernels: []string{imagetest.Kernel}, Sources: true, Epoch: 1700000000, Base: r.Base("debian12")})
	img := require.Value(r.b.Build(t.Context(), planned))(t)
	known := documents.Model{Name: "driver", Images: []*documents.ImageContent{billed(t, r.b, img, planned)}}
	readSPDX(t, document(t, documents.SPDX, known))
	sbomGolden(t, r.World, "sbom.spdx.json", document(t, documents.SPDX, known))
	sbomGolden(t, r.World, "sbom.cdx.json", document(t, documents.CycloneDX, known))
	assert.Equal(t, true, slices.ContainsFunc(known.Packages(), func(p string) bool { return strings.HasPrefix(p, "pkg:deb/debian/kmod@") }))
	alone := documents.Model{Images: []*documents.ImageContent{billed(t, r.b, img, nil)}}
	readSPDX(t, document(t, documents.SPDX, alone))
	sbomGolden(t, r.World, "sbom-alone.spdx.json", document(t, documents.SPDX, alone))
}

// TestSBOMFindsAll: every package of the image, the driver's and those of the build are in the document, of
// both kinds of systems, each with what the recipe pins.
func TestSBOMFindsAll(t *testing.T) {
	t.Parallel()
	r, _ := precompiledRig(t)
	rpm := newRPMRig(t, "rocky9")
	for what, c := range map[string]struct {
		b       *Builder
		planned *recipe.Recipe
		purl    string
	}{
		"packages": {r.b, r.plan(t, pair("debian12", newDriver), recipe.Options{}), "pkg:deb/debian/"},
		"modules":  {r.b, r.plan(t, pair("debian12", newDriver), recipe.Options{Kernels: []string{imagetest.Kernel}}), "pkg:deb/debian/"},
		"runfile":  {r.b, r.plan(t, pair("ubuntu16.04", oldDriver), recipe.Options{}), "pkg:deb/ubuntu/"},
		"rpm":      {rpm.b, rpm.plan(t, recipe.Options{}), "pkg:rpm/rocky/"},
	} {
		img := require.Value(c.b.Build(t.Context(), c.planned))(t)
		i := billed(t, c.b, img, c.planned)
		doc := readSPDX(t, document(t, documents.SPDX, documents.Model{Images: []*documents.ImageContent{i}}))
		byName := map[string]*spdx.Package{}
		for _, p := range doc.Packages {
			if len(p.PackageExternalReferences) > 0 && strings.HasPrefix(p.PackageExternalReferences[0].Locator, c.purl) {
				byName[p.PackageName+" "+p.PackageVersion] = p
			}
		}
		assert.Equalf(t, false, len(i.Packages) < 4, "%s: the image has %d packages", what, len(i.Packages))
		for _, p := range i.Packages {
			assert.Equalf(t, false, byName[p.Name+" "+p.Version] == nil, "%s: no package %s %s", what, p.Name, p.Version)
		}
		for _, p := range c.planned.AllPackages() {
			found := byName[p.Name+" "+p.Version]
			if found == nil || found.PackageDownloadLocation != p.URL || len(found.PackageChecksums) != 1 || found.PackageChecksums[0].Value != p.SHA256 {
				t.Errorf("%s: %s %s is %+v", what, p.Name, p.Version, found)
			}
		}
		text := string(document(t, documents.SPDX, documents.Model{Images: []*documents.ImageContent{i}}))
		if run := c.planned.Source.Runfile; run != nil {
			assert.Contains(t, text, `"downloadLocation": "`+run.URL)
			assert.Contains(t, text, "checksum=sha256:"+run.SHA256)
		}
		for _, f := range slices.Concat(i.Libraries, i.Firmware, i.Programs) {
			assert.Contains(t, text, `"packageFileName": "`+f+`"`)
		}
	}
}

// TestSBOMIsDeterministic: the order of lists changes no byte.
func TestSBOMIsDeterministic(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	planned := r.plan(t, pair("debian12", newDriver), recipe.Options{})
	img := require.Value(r.b.Build(t.Context(), planned))(t)
	one, two := billed(t, r.b, img, planned), billed(t, r.b, img, planned)
	shuffle(two.Packages)
	shuffle(two.Libraries)
	shuffle(two.Firmware)
	shuffle(two.Programs)
	shuffle(two.Flavours)
	other := *one
	other.Arch = "arm64"
	for _, f := range []documents.Format{documents.SPDX, documents.CycloneDX} {
		want := document(t, f, documents.Model{Index: "sha256:1", Images: []*documents.ImageContent{one, &other}})
		assert.Same(t, string(want), string(document(t, f, documents.Model{Index: "sha256:1", Images: []*documents.ImageContent{&other, two}})))
	}
}

func shuffle[T any](list []T) {
	rand.Shuffle(len(list), func(a, b int) { list[a], list[b] = list[b], list[a] })
}

// TestSBOMRefuses: the recipe of another image would lie.
func TestSBOMRefuses(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	img := r.build(t, pair("debian12", newDriver), recipe.Options{})
	i := billed(t, r.b, img, nil)
	if err := i.AddRecipe(r.plan(t, pair("debian12", newDriver), recipe.Options{Profile: recipe.Compute})); !errors.Is(err, documents.ErrForeign) {
		t.Errorf("%v", err)
	}
	assert.ErrorContains(t, assert.Err(documents.SBOM(documents.Model{}, documents.SPDX)), "no image")
}
