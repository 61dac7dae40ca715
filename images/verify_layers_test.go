package images

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"pgregory.net/rapid"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images/description"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/verify"
)

// tarLayer is a layer of members, compressed as the name's end says.
func tarLayer(t *testing.T, compression string, all ...tar.Header) v1.Layer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, hdr := range all {
		hdr.Format = tar.FormatPAX
		require.NoError(t, w.WriteHeader(&hdr))
		_ = require.Value(w.Write(make([]byte, hdr.Size)))(t)
	}
	require.NoError(t, w.Close())
	data := repotest.Compress(t, compression, b.Bytes())
	return require.Value(tarball.LayerFromOpener(opener(data), tarball.WithMediaType(types.OCILayer)))(t)
}

// layered is an image of other layers, with the configuration of an image.
func layered(t *testing.T, img v1.Image, layers []v1.Layer) v1.Image {
	t.Helper()
	var adds []mutate.Addendum
	for _, l := range layers {
		adds = append(adds, mutate.Addendum{Layer: l, MediaType: require.Value(l.MediaType())(t)})
	}
	config := require.Value(img.ConfigFile())(t)
	return require.Value(description.Image(config, adds, config.Config.Labels))(t)
}

// TestForeignLayers: a layer that is not of the build is named, whatever it has and however runtimes read it.
func TestForeignLayers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	good := r.build(t, pair("debian12", newDriver), recipe.Options{})
	smi := "usr/bin/nvidia-smi"
	link := func(name, target string, mode int64) tar.Header {
		return tar.Header{Name: name, Linkname: target, Typeflag: tar.TypeLink, Mode: mode}
	}
	file := func(name string) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o755, Size: 1}
	}
	for what, all := range map[string][]tar.Header{
		"a hard link that changes the mode of a file": {file("usr/bin/a"), link(smi, "usr/bin/a", 0o6777)},
		"a link to a file of another layer":           {link("usr/bin/a", smi, 0o6777)},
		"a whiteout after its file":                   {file(smi), file("usr/bin/.wh.nvidia-smi")},
		"a file where the entrypoint looks":           {file("run/modprobe.d/x.conf")},
		"headers for a compile":                       {file("var/tmp/nvidia-driver-headers/6.1.0/Makefile")},
		"a document":                                  {file("usr/share/doc/x")},
		"a link in the place of a folder":             {{Name: "run", Linkname: "etc", Typeflag: tar.TypeSymlink}},
		"nothing":                                     nil,
	} {
		for _, compression := range []string{".gz", ".xz"} {
			l := tarLayer(t, compression, all...)
			img := require.Value(mutate.AppendLayers(good, l))(t)
			said := wantUnfit(t, r.b, what, img)
			if compression == ".xz" {
				continue
			}
			assert.Containsf(t, said, fmt.Sprintf("layer 8 (%s) is not of the build: it has ", require.Value(l.Digest())(t)), "%s%s", what, compression)
			for _, hdr := range all {
				assert.Containsf(t, said, hdr.Name, "%s", what)
			}
		}
	}
	many := good
	for n := range 150 {
		many = require.Value(mutate.AppendLayers(many, tarLayer(t, ".gz", file(fmt.Sprint("x/", n)))))(t)
	}
	assert.Contains(t, wantUnfit(t, r.b, "many layers", many), "layer 157 (")
	var more []tar.Header
	for n := range 100 {
		more = append(more, file(fmt.Sprint("x/", n)))
	}
	assert.Contains(t, wantUnfit(t, r.b, "many files", require.Value(mutate.AppendLayers(good, tarLayer(t, ".gz", more...)))(t)), "x/19 and 80 more;")
	squashed := layered(t, good, []v1.Layer{require.Value(tarball.LayerFromOpener(mutated(good)))(t)})
	assert.Contains(t, wantUnfit(t, r.b, "squashed", squashed), "is not in a layer of its own")
}

// mutated is all that an image has as one layer.
func mutated(img v1.Image) tarball.Opener {
	return func() (r io.ReadCloser, err error) { return mutate.Extract(img), nil }
}

// anyMember is a member of a layer, as a site, a scanner or an attacker may add one.
func anyMember() *rapid.Generator[tar.Header] {
	names := rapid.OneOf(
		rapid.SampledFrom([]string{
			"etc/site.crt", "etc/ld.so.conf.d/a.conf", "usr/bin/nvidia-smi", "usr/bin/.wh.nvidia-smi", "usr/.wh..wh..opq", ".wh.usr", ".", "../a", "/abs",
			driverinfo.Path, driverinfo.Path + ".txt", path.Dir(driverinfo.Path) + "/.wh." + path.Base(driverinfo.Path),
		}),
		rapid.StringMatching(`[a-z]{1,8}(/(\.wh\.)?[a-zé \\]{1,60}){0,4}`),
	)
	types := []byte{tar.TypeReg, tar.TypeDir, tar.TypeFifo, tar.TypeSymlink, tar.TypeLink, tar.TypeChar, tar.TypeBlock, tar.TypeXGlobalHeader}
	return rapid.Custom(func(rt *rapid.T) tar.Header {
		hdr := tar.Header{Typeflag: rapid.SampledFrom(types).Draw(rt, "type")}
		if hdr.Typeflag == tar.TypeXGlobalHeader {
			hdr.PAXRecords = map[string]string{"path": names.Draw(rt, "path")}
			return hdr
		}
		hdr.Name = names.Draw(rt, "name")
		hdr.Mode = int64(rapid.IntRange(0, 0o7777).Draw(rt, "mode"))
		hdr.ModTime = time.Unix(int64(rapid.IntRange(0, 1<<33).Draw(rt, "time")), 0)
		switch hdr.Typeflag {
		case tar.TypeReg:
			hdr.Size = int64(rapid.IntRange(0, 2000).Draw(rt, "size"))
		case tar.TypeSymlink, tar.TypeLink:
			hdr.Linkname = names.Draw(rt, "target")
		}
		attribute := rapid.SampledFrom([]string{"", "security.capability", "trusted.overlay.opaque", "user.a"}).Draw(rt, "attribute")
		if attribute != "" {
			hdr.PAXRecords = map[string]string{"SCHILY.xattr." + attribute: "y"}
		}
		return hdr
	})
}

// anyLayer is a valid layer: of members, of none, or once more one of the image.
func anyLayer(t *testing.T, layers []v1.Layer) *rapid.Generator[v1.Layer] {
	t.Helper()
	return rapid.OneOf(
		rapid.SampledFrom(layers),
		rapid.Custom(func(rt *rapid.T) v1.Layer {
			all := rapid.SliceOfN(anyMember(), 0, 5).Draw(rt, "members")
			return tarLayer(t, rapid.SampledFrom([]string{"", ".gz", ".zst"}).Draw(rt, "compression"), all...)
		}),
	)
}

// TestAnyLayers: of an image that driver-build made, any layer that is added, gone, replaced or in another place is an
// error, and so is any change of the configuration. One layer on top can be allowed.
func TestAnyLayers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	good := r.build(t, pair("debian12", newDriver), recipe.Options{})
	layers := layersOf(t, good)
	fields := map[string]v1.Image{}
	fieldDamages(t, good, fields)
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(fields)), func(name string) bool { return strings.HasPrefix(name, "diff_id") })
	rapid.Check(t, func(rt *rapid.T) {
		with := anyLayer(t, layers).Draw(rt, "layer")
		at := rapid.IntRange(0, len(layers)-1).Draw(rt, "at")
		other := rapid.IntRange(0, len(layers)-1).Filter(func(n int) bool { return n != at }).Draw(rt, "other")
		all := slices.Clone(layers)
		what := rapid.SampledFrom([]string{"add", "drop", "swap", "replace", "configure"}).Draw(rt, "what")
		img := good
		switch what {
		case "add":
			img = layered(t, good, slices.Insert(all, at+1, with))
		case "drop":
			img = layered(t, good, slices.Delete(all, at, at+1))
		case "swap":
			kept := all[at]
			all[at] = all[other]
			all[other] = kept
			img = layered(t, good, all)
		case "replace":
			if with == all[at] {
				rt.Skip("the same image")
			}
			all[at] = with
			img = layered(t, good, all)
		case "configure":
			what = rapid.SampledFrom(names).Draw(rt, "field")
			img = fields[what]
		}
		said := wantUnfit(rt, r.b, what, img)
		added := what == "add" || what == "replace" && at < len(layers)-1 // without a description it is an image of others
		if added {
			assert.Containsf(rt, said, fmt.Sprintf("(%s) is not of the build: it has ", require.Value(with.Digest())(t)), "%s", what)
		}
	})
	site := tarLayer(t, ".gz", tar.Header{Name: "etc/site.crt", Typeflag: tar.TypeReg, Size: 1})
	o := verify.Options{AllowedLayers: []v1.Hash{require.Value(site.DiffID())(t)}}
	found := require.Value(examiner(r.b).Verify(t.Context(), "x", layered(t, good, append(layers, site)), o))(t)
	assert.NoErrorf(t, verify.Unfit(found), "%v", found)
}

// lost is an image that lacks the content of a layer.
type lost struct{ v1.Image }

func (l lost) Layers() ([]v1.Layer, error) {
	all, err := l.Image.Layers()
	if err == nil {
		all = slices.Clone(all)
		all[1] = lostLayer{all[1]}
	}
	return all, err
}

type lostLayer struct{ v1.Layer }

func (lostLayer) Uncompressed() (io.ReadCloser, error) { return nil, fs.ErrNotExist }

// TestVerifyIndex: every entry of an index is judged.
func TestVerifyIndex(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	good := r.build(t, pair("debian12", newDriver), recipe.Options{})
	d := *require.Value(partial.Descriptor(good))(t)
	entry := func(p *v1.Platform) v1.Descriptor {
		e := d
		e.Platform = p
		return e
	}
	amd64 := entry(&v1.Platform{OS: "linux", Architecture: "amd64"})
	for what, c := range map[string]struct {
		entries []v1.Descriptor
		image   v1.Image
		want    string
	}{
		"one":           {[]v1.Descriptor{amd64, entry(&v1.Platform{OS: "unknown", Architecture: "unknown"})}, good, ""},
		"twice":         {[]v1.Descriptor{amd64, amd64}, good, "is a second one for linux/amd64"},
		"two variants":  {[]v1.Descriptor{amd64, entry(&v1.Platform{OS: "linux", Architecture: "amd64", Variant: "v3"})}, good, "is a second one for linux/amd64/v3"},
		"a variant":     {[]v1.Descriptor{entry(&v1.Platform{OS: "linux", Architecture: "amd64", Variant: "v3"})}, good, "is for linux/amd64, its entry says linux/amd64/v3"},
		"wrong":         {[]v1.Descriptor{entry(&v1.Platform{OS: "linux", Architecture: "arm64"})}, good, "is for linux/amd64, its entry says linux/arm64"},
		"no platform":   {[]v1.Descriptor{amd64, entry(nil)}, good, "has no platform"},
		"an index":      {[]v1.Descriptor{amd64, {MediaType: types.OCIImageIndex}}, good, "is an index"},
		"missing blob":  {[]v1.Descriptor{amd64}, lost{good}, "is not there"},
		"missing image": {[]v1.Descriptor{amd64}, nil, "cannot be read"},
		"foreign layer": {[]v1.Descriptor{amd64}, member(t, good, tar.Header{Name: "a", Typeflag: tar.TypeReg}), "linux/amd64: layer 8 ("},
	} {
		open := func(v1.Descriptor) (v1.Image, error) {
			if c.image == nil {
				return nil, fs.ErrNotExist
			}
			return c.image, nil
		}
		found := require.Value(examiner(r.b).VerifyIndex(t.Context(), "x", c.entries, open, verify.Options{}))(t)
		assert.Equalf(t, c.want != "", verify.Unfit(found) != nil, "%s: %v", what, found)
		assert.Containsf(t, fmt.Sprint(found), c.want, "%s", what)
	}
}
