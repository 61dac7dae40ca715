package attestation_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/programtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
)

func pair(system, driver string, archs ...string) matrix.Selection {
	return matrix.Selection{Systems: []string{system}, Drivers: []string{driver}, Archs: archs}
}

const same = "with the same digest"

// TestSame: another machine makes the same image of each kind of system, with options that are not the usual
// ones, and afterwards without a network from its cache.
func TestSame(t *testing.T) {
	t.Parallel()
	apt := newWorld(t)
	rpm := imagetest.NewRPM(t, "rocky9", "opensuse-leap15.6", "centos7")
	yum := &world{rpm.World, rpm.Matrix(), machine(t)}
	for what, c := range map[string]struct {
		w *world
		s matrix.Selection
		o recipe.Options
	}{
		"packages": {apt, pair("debian12", imagetest.NewDriver), recipe.Options{}},
		"options": {apt, matrix.Selection{Systems: []string{"debian12"}, Drivers: []string{imagetest.NewDriver},
			Flavours: []string{"open"}}, recipe.Options{Profile: recipe.Compute, Compression: recipe.Zstd, Epoch: 1700000000}},
		"runfile":                    {apt, pair("ubuntu16.04", imagetest.OldDriver), recipe.Options{}},
		"rpm":                        {yum, pair("rocky9", imagetest.NewDriver), recipe.Options{}},
		"sha512":                     {yum, pair("opensuse-leap15.6", imagetest.NewDriver), recipe.Options{}},
		"repositories of the matrix": {yum, pair("centos7", imagetest.OldDriver), recipe.Options{}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			ref := c.w.published(t, c.w.build(t, c.s, c.o))
			wants(t, require.Value(trusted().Images(t.Context(), machine(t), ref))(t), false, same, "(.att, key ")
		})
	}
}

// TestFresh: what the cache says of earlier layers is not believed.
func TestFresh(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ref := w.published(t, w.build(t, pair("debian12", imagetest.NewDriver), recipe.Options{}))
	records := require.Value(filepath.Glob(filepath.Join(w.b.Store.Dir(), "keys", "layer-*.json")))(t)
	wrong := require.Value(os.ReadFile(records[0]))(t)
	for _, file := range records {
		require.NoError(t, os.WriteFile(file, wrong, 0o600))
	}
	wants(t, require.Value(trusted().Images(t.Context(), w.b, ref))(t), false, same)
	left := require.Value(filepath.Glob(filepath.Join(w.b.Store.Dir(), "work", "*")))(t)
	assert.Equalf(t, 0, len(left), "the rebuild left %s", left)
}

// TestTampered: what a provenance says and the image is not is named.
func TestTampered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b, run := w.build(t, pair("debian12", imagetest.NewDriver), recipe.Options{}), w.build(t, pair("ubuntu16.04", imagetest.OldDriver),
		recipe.Options{})
	for what, c := range map[string]struct {
		b     built
		edit  func(*recipe.Recipe)
		fails error
		parts []string
	}{
		"archive": {run, func(r *recipe.Recipe) {
			file := *r.Source.Runfile
			file.SHA256, r.Source.Runfile = strings.Repeat("0", 64), &file
		}, &fetch.MismatchError{}, []string{".run", strings.Repeat("0", 64)}},
		"package left out": {b, func(r *recipe.Recipe) {
			r.Packages = slices.DeleteFunc(slices.Clone(r.Packages), func(p distros.Package) bool { return p.Name == "kmod" })
		}, nil, []string{"is not in the rebuild", "/var/lib/dpkg/status"}},
		"option": {b, func(r *recipe.Recipe) { r.Profile = recipe.Compute }, nil, []string{
			`config.Labels.io.github.driver-container.profile is "full", not "compute"`, "is not in the rebuild"}},
		"time": {b, func(r *recipe.Recipe) { r.Epoch = 1 }, nil, []string{`created is "1970-01-01T00:00:00Z", not "1970-01-01T00:00:01Z"`,
			"the files are the same"}},
		"compression": {b, func(r *recipe.Recipe) { r.Compression = recipe.Gzip }, nil,
			[]string{"layer 3 (user-mode driver): is compressed otherwise"}},
		"program": {b, func(r *recipe.Recipe) {
			r.Entrypoint = slices.Clone(r.Entrypoint)
			r.Entrypoint[0].SHA256 = strings.Repeat("0", 64)
		}, nil, []string{"too, but what the provenance says is not true", "amd64: program driver-entrypoint was sha256:"}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			of := *c.b.recipe
			c.edit(&of)
			ref := w.publish(t, c.b.Image, statement{c.b.Image, built{nil, &of}.predicate(t), keys()[0]})
			findings, err := trusted().Images(t.Context(), machine(t), ref)
			switch {
			case c.fails != nil:
				var mismatch *fetch.MismatchError
				if !errors.As(err, &mismatch) {
					t.Errorf("%v, %s", err, lines(findings))
				}
				for _, p := range c.parts {
					assert.Contains(t, fmt.Sprint(err), p)
				}
			default:
				require.NoError(t, err)
				wants(t, findings, true, append(c.parts, "its digest is sha256:")...)
			}
		})
	}
}

// TestLocalInputs: an archive and a base that were files where the image was built have to be given, and a
// path in a provenance is never opened.
func TestLocalInputs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := filepath.Join(t.TempDir(), "NVIDIA.run")
	require.NoError(t, os.WriteFile(run, w.Runs[imagetest.OldDriver+" amd64"], 0o600))
	b := w.build(t, pair("ubuntu16.04", imagetest.OldDriver), recipe.Options{Source: "file://" + run})
	of := *b.recipe
	of.Base.Name = ""
	ref := w.publish(t, b.Image, statement{b.Image, built{nil, &of}.predicate(t), keys()[0]})
	o, m := trusted(), machine(t)
	_, err := o.Images(t.Context(), m, ref)
	if !isRequest(err) || !strings.Contains(err.Error(), "--base") {
		t.Errorf("%v", err)
	}
	o.Base = w.Base("ubuntu16.04")
	if _, err = o.Images(t.Context(), m, ref); !isRequest(err) || !strings.Contains(err.Error(), "--source") {
		t.Errorf("%v", err)
	}
	o.Source = "file://" + run
	wants(t, require.Value(o.Images(t.Context(), m, ref))(t), true, `config.Labels.org.opencontainers.image.base.name is "`)
	o.Source = "" // it is in the cache now
	require.NoError(t, os.Remove(run))
	wants(t, require.Value(o.Images(t.Context(), m, ref))(t), true, `config.Labels.org.opencontainers.image.base.name is "`)
}

// TestOtherMachine: programs and driver-build of another version are named as the reason.
func TestOtherMachine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.build(t, pair("debian12", imagetest.NewDriver), recipe.Options{})
	ref := w.published(t, b)
	m := machine(t)
	m.Info.Version, m.Binaries = "v0.0.2", programtest.Make(t, "two")
	wants(t, require.Value(trusted().Images(t.Context(), m, ref))(t), true,
		`driver-build was "v0.0.1", now it is "v0.0.2"`, `program driver-entrypoint was sha256:`+b.recipe.Entrypoint[0].SHA256,
		`layer 5 (entrypoint): /usr/local/bin/driver-probe is file of`)
}

// changed replaces the layer of a name by one of other content, and keeps all the rest.
func changed(t *testing.T, img v1.Image, name string, with v1.Layer) v1.Image {
	t.Helper()
	config := require.Value(img.ConfigFile())(t).DeepCopy()
	manifest := require.Value(img.Manifest())(t)
	layers := require.Value(img.Layers())(t)
	var adds []mutate.Addendum
	for i, l := range layers {
		h := config.History[i]
		if strings.HasSuffix(h.CreatedBy, ": "+name) {
			l = with
		}
		adds = append(adds, mutate.Addendum{Layer: l, MediaType: types.OCILayer, History: h})
		config.RootFS.DiffIDs[i] = require.Value(l.DiffID())(t)
	}
	made := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	made = require.Value(mutate.Append(made, adds...))(t)
	made = require.Value(mutate.ConfigFile(made, config))(t)
	return mutate.Annotations(made, manifest.Annotations).(v1.Image)
}

// TestChangedLayer: an image that was changed after the build, with its true provenance.
func TestChangedLayer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.build(t, pair("debian12", imagetest.NewDriver), recipe.Options{})
	other := w.build(t, pair("debian12", imagetest.NewDriver), recipe.Options{Profile: recipe.Compute})
	layers := require.Value(other.Layers())(t)
	config := require.Value(other.ConfigFile())(t)
	i := slices.IndexFunc(config.History, func(h v1.History) bool { return strings.HasSuffix(h.CreatedBy, ": user-mode driver") })
	bad := changed(t, b.Image, "user-mode driver", layers[i])
	ref := w.publish(t, bad, statement{bad, b.predicate(t), keys()[0]})
	findings := require.Value(trusted().Images(t.Context(), machine(t), ref))(t)
	wants(t, findings, true, "layer 3 (user-mode driver): /usr/", "of the rebuild is missing")
	for _, f := range findings {
		if strings.Contains(f.Message, "label") {
			t.Errorf("%s", f)
		}
	}
}
