package images

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/verify"
)

// configured is an image with another configuration.
func configured(t *testing.T, img v1.Image, change func(*v1.ConfigFile)) v1.Image {
	t.Helper()
	c := require.Value(img.ConfigFile())(t).DeepCopy()
	change(c)
	return require.Value(mutate.ConfigFile(img, c))(t)
}

// unpacking is an image whose configuration has another diff_id for one of the layers.
type unpacking struct {
	v1.Image
	at int
}

func (u unpacking) Layers() ([]v1.Layer, error) {
	all, err := u.Image.Layers()
	if err == nil {
		all = slices.Clone(all)
		all[u.at] = otherID{all[u.at]}
	}
	return all, err
}

type otherID struct{ v1.Layer }

func (otherID) DiffID() (v1.Hash, error) {
	return v1.Hash{Algorithm: "sha256", Hex: strings.Repeat("a", 64)}, nil
}

// another returns values of a type that are not the one given.
func another(v reflect.Value) reflect.Value {
	now := reflect.New(v.Type()).Elem()
	switch {
	case v.Type() == reflect.TypeFor[v1.Time]():
		now.Set(reflect.ValueOf(v1.Time{Time: time.Unix(7, 0).UTC()}))
	case v.Kind() == reflect.String:
		now.SetString(v.String() + "x")
	case v.Kind() == reflect.Bool:
		now.SetBool(!v.Bool())
	case v.Kind() == reflect.Pointer:
		now.Set(reflect.New(v.Type().Elem()))
		first := now.Elem().Field(0) // an empty object is as good as none
		first.Set(another(first))
	case v.Kind() == reflect.Map:
		now.Set(reflect.MakeMap(v.Type()))
		now.SetMapIndex(reflect.ValueOf("/usr/lib/x86_64-linux-gnu"), reflect.Zero(v.Type().Elem()))
	case v.Kind() == reflect.Slice:
		now.Set(reflect.Append(v, reflect.New(v.Type().Elem()).Elem()))
	}
	return now
}

// fieldDamages changes each field of the configuration, also fields that it may get one day.
func fieldDamages(t *testing.T, good v1.Image, all map[string]v1.Image) {
	t.Helper()
	of := func(within func(*v1.ConfigFile) reflect.Value, prefix string) {
		fields := reflect.VisibleFields(within(&v1.ConfigFile{}).Type())
		for _, f := range fields {
			if f.Name == "RootFS" || f.Name == "Config" {
				continue
			}
			all[prefix+f.Name] = configured(t, good, func(c *v1.ConfigFile) {
				field := within(c).FieldByIndex(f.Index)
				field.Set(another(field))
			})
		}
	}
	of(func(c *v1.ConfigFile) reflect.Value { return reflect.ValueOf(c).Elem() }, "")
	of(func(c *v1.ConfigFile) reflect.Value { return reflect.ValueOf(&c.Config).Elem() }, "Config.")
	config := require.Value(good.ConfigFile())(t)
	for _, kv := range config.Config.Env {
		name, value, _ := strings.Cut(kv, "=")
		edit := func(with ...string) func(*v1.ConfigFile) {
			return func(c *v1.ConfigFile) {
				at := slices.Index(c.Config.Env, kv)
				c.Config.Env = append(slices.Delete(c.Config.Env, at, at+1), with...)
			}
		}
		all["without "+name] = configured(t, good, edit())
		all["other "+name] = configured(t, good, edit(name+"="+value+"1"))
	}
	for n := range config.RootFS.DiffIDs {
		all[fmt.Sprint("diff_id ", n)] = unpacking{good, n}
	}
}

// labelDamages changes, removes and invents labels, and what the manifest repeats of them.
func labelDamages(t *testing.T, good v1.Image, all map[string]v1.Image) {
	t.Helper()
	labels := require.Value(good.ConfigFile())(t).Config.Labels
	set := func(name string, of func() v1.Image) { all[name] = of() }
	for _, name := range append(slices.Collect(maps.Keys(labels)), recipe.LabelKernels, recipe.LabelSigner, recipe.LabelAliases, recipe.LabelOverridden,
		recipe.LabelCompanions, recipe.LabelOmitted, recipe.LabelPatches, recipe.LabelVGPU) {
		for what, to := range map[string]string{"other": labels[name] + "1", "no": ""} {
			if to == labels[name] {
				continue
			}
			edit := func(m map[string]string) {
				if m[name] = to; to == "" {
					delete(m, name)
				}
			}
			both := func(alsoManifest, alsoLabel bool) v1.Image {
				img := good
				if alsoLabel {
					img = configured(t, img, func(c *v1.ConfigFile) { edit(c.Config.Labels) })
				}
				m := require.Value(img.Manifest())(t).DeepCopy()
				if alsoManifest {
					edit(m.Annotations)
				}
				return annotated{img, m}
			}
			set(what+" label and annotation "+name, func() v1.Image { return both(true, true) })
			set(what+" label "+name, func() v1.Image { return both(false, true) })
			set(what+" annotation "+name, func() v1.Image { return both(true, false) })
		}
	}
}

// member is an image with one more layer of one member.
func member(t *testing.T, img v1.Image, hdr tar.Header) v1.Image {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	hdr.Format = tar.FormatPAX
	require.NoError(t, w.WriteHeader(&hdr))
	require.NoError(t, w.Close())
	l := require.Value(tarball.LayerFromOpener(opener(b.Bytes()), tarball.WithMediaType(types.OCIUncompressedLayer)))(t)
	return require.Value(mutate.AppendLayers(img, l))(t)
}

// memberDamages adds each kind of member that an archive can have, and extended attributes.
func memberDamages(t *testing.T, good v1.Image, all map[string]v1.Image) {
	t.Helper()
	for kind, c := range map[string]byte{"character device": tar.TypeChar, "FIFO": tar.TypeFifo, "link": tar.TypeSymlink, "hard link": tar.TypeLink,
		"file": tar.TypeReg, "contiguous file": tar.TypeCont, "unknown kind": 'Z', "folder": tar.TypeDir} {
		for _, name := range []string{"usr/bin/nvidia-smi", "opt/a", "run/modprobe.d/x.conf", "usr/share/doc/a", driverinfo.Path} {
			hdr := tar.Header{Name: name, Typeflag: c, Mode: 0o755}
			if c == tar.TypeSymlink || c == tar.TypeLink {
				hdr.Linkname = "usr/bin/nvidia-smi"
			}
			all[kind+" "+name] = member(t, good, hdr)
		}
	}
	for _, name := range []string{"trusted.overlay.opaque", "security.capability"} {
		records := map[string]string{"SCHILY.xattr." + name: "y"}
		all[name] = member(t, good, tar.Header{Name: libDir + "/", Typeflag: tar.TypeDir, Mode: 0o755, PAXRecords: records})
	}
}

// TestEveryDamage: of an image that driver-build made, every field of the configuration, every label, every
// annotation and every kind of member of a layer is judged.
func TestEveryDamage(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	good := r.build(t, pair("debian12", newDriver), recipe.Options{})
	wantFit(t, r.b, good)
	all := map[string]v1.Image{}
	fieldDamages(t, good, all)
	labelDamages(t, good, all)
	memberDamages(t, good, all)
	for what, img := range all {
		wantUnfit(t, r.b, what, img)
	}
	t.Logf("%d damages", len(all))
}

// wantUnfit fails unless verify finds an error in an image, or refuses to read it as malformed, and returns what it says.
func wantUnfit(t assert.T, b *Builder, what string, img v1.Image) string {
	t.Helper()
	findings, err := examiner(b).Verify(context.Background(), "x", img, verify.Options{})
	if err == nil {
		err = verify.Unfit(findings)
	}
	assert.Equalf(t, failure.Content, failure.KindOf(err), "%s: %v", what, err)
	return fmt.Sprint(findings, err)
}
