package provenance

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
)

// TestRead: a recipe comes back from its predicate whole, in the order of plans.
func TestRead(t *testing.T) {
	t.Parallel()
	whole := example()
	whole.Distro = require.Value(distros.Lookup("debian12"))(t)
	whole.Links, whole.LibDir, whole.LibDir32 = whole.Distro.Links(), whole.Distro.LibDir("amd64"), whole.Distro.LibDir32("amd64")
	whole.Aliases, whole.Flavours, whole.Kernel.Reason = []string{"535-debian12"}, []string{"proprietary"}, "it was tried"
	whole.Repositories, whole.OnlyThese = []matrix.Repository{{URIs: []string{"https://x/deb"}, Suites: []string{"s"}, Components: []string{"main"}, Key: "KEY"}}, true
	whole.Packages = []distros.Package{deb("gcc", "4", "2"), deb("gcc-12", "12", "1"), deb("odd", "1", "3")} // "gcc-12_12" sorts before "gcc_4"
	whole.Packages[2].SHA256, whole.Packages[2].SHA512 = "", strings.Repeat("3", 128)
	whole.Packages[1].Keys, whole.Packages[1].Size, whole.Packages[1].Arch = []string{"AB", "CD"}, 17, "x86_64"
	whole.CUDA, whole.Advisories = "12.2", []driverinfo.Advisory{{ID: "x", Kind: driverinfo.KnownBad, Reason: "r", Source: "s"}}
	whole.Toolchain, whole.Sources, whole.KMM, whole.VGPU = true, true, true, driverinfo.VGPUAWS
	text := sha256.Sum256([]byte("--- a"))
	whole.Patches = []recipe.Patch{
		{Name: "a", SHA256: hex.EncodeToString(text[:]), File: "patches/a.patch", Text: "--- a", Flavours: []string{matrix.Proprietary}, Kernels: []driverinfo.Span{{From: "6.1", Below: "6.2"}}, Licence: "MIT", Reason: "r", Origin: "o"},
		{Name: "b", SHA256: strings.Repeat("5", 64), URL: "https://x/b.patch", Flavours: []string{matrix.Open}, Kernels: []driverinfo.Span{{From: "6.12"}}, Licence: "MIT", Reason: "r", Origin: "o"},
	}
	for field, value := range reflect.ValueOf(whole).Elem().Fields() {
		assert.Equalf(t, false, value.IsZero(), "the recipe has no %s: does Read lose it?", field.Name)
	}
	for _, source := range []recipe.Source{whole.Source, {Packages: []distros.Package{deb("libcuda1", "535", "4"), deb("nvidia-smi", "535", "5")}}} {
		whole.Source = source
		of := run()
		of.Configs = []Resource{{URI: "git+https://x@main", Digest: map[string]string{"gitCommit": strings.Repeat("0", 40)}}}
		data := encoded(t, whole, of)
		r, back, err := Read(data)
		require.NoError(t, err)
		want := whole.Public()
		assert.Equal(t, want.Distro.ID(), r.Distro.ID())
		want.Distro, r.Distro = nil, nil
		assert.Same(t, want, r)
		assert.Same(t, string(data), string(encoded(t, r, back)))
	}
}

// TestReadRefuses: nothing of a predicate is passed over, and values that are no options are refused.
func TestReadRefuses(t *testing.T) {
	t.Parallel()
	good := string(encoded(t, example(), run()))
	for _, c := range [][2]string{
		{`"system":"debian12"`, `"system":"debian12","more":1`}, {`"system":"debian12"`, `"System":"debian12"`}, {`"system":"debian12"`, `"system":"plan9"`},
		{`"internalParameters":{`, `"internalParameters":{"more":[1],`}, {`"arch":"amd64","tag"`, `"arch":"pdp11","tag"`},
		{`"driver":"535.261.03"`, `"driver":"../../535.261.03"`}, {`"profile":"full"`, `"profile":"half"`}, {`"compression":"gzip"`, `"compression":"lzh"`},
		{`"sourceDateEpoch":1700000000`, `"sourceDateEpoch":-1`}, {`"sourceDateEpoch":1700000000`, `"sourceDateEpoch":99999999999999`},
		{`"sourceDateEpoch":1700000000`, `"sourceDateEpoch":"now"`}, {`"base":"docker.io/library/debian:12-slim"`, `"base":"oci:/etc"`},
		{`"base":"docker.io/library/debian:12-slim"`, `"base":"../x"`},
		{`"base":"docker.io/library/debian:12-slim"`, `"base":"debian@sha256:` + sum("1") + `"`}, {`"modules":["nvidia"]`, `"modules":["nvidia","--help"]`},
		{`"kernels":["6.1.0-38-amd64"]`, `"kernels":["$(reboot)"]`}, {`"precompile":["proprietary"]`, `"precompile":["free"]`},
		{`"kernels":["6.1.0-38-amd64"],`, ``}, {`"signer":"` + sum("9"), `"signer":"x`}, {`"tag":"535.261.03-debian12"`, `"tag":"a b"`},
		{`https://deb.example.com/kmod.deb`, `file:///etc/passwd`}, {`https://deb.example.com/kmod.deb`, `kmod.deb`}, {`https://deb.example.com/kmod.deb`, `http://[`},
		{`"role":"compiler"`, `"role":"compilers"`}, {`"role":"base image"`, `"role":"configuration"`}, {`"sha256":"` + sum("1"), `"sha256":"../` + sum("1")},
		{`"sha256":"` + sum("4"), `"sha1":"` + sum("4")}, {`"package":"kmod"`, `"package":"kmods"`}, {`"version":"30"`, `"version":"31"`},
		{`"role":"program"`, `"role":"driver"`}, {`"sha256":"` + sum("a"), `"sha256":"` + sum("A")}, {`"flavours":["open"`, `"flavours":["open","open"`},
		{`"role":"package of the image"`, `"role":"package of the image","size":"-1"`},
	} {
		data := strings.Replace(good, c[0], c[1], 1)
		if data == good {
			t.Errorf("%s is not in the predicate", c[0])
		}
		if r, _, err := Read([]byte(data)); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %+v, %v", c[1], r, err)
		}
	}
}

// TestReadBounds: large predicates are read or refused in time that grows with their size.
func TestReadBounds(t *testing.T) {
	t.Parallel()
	r := example()
	for n := range 1000 {
		r.Packages = append(r.Packages, deb(fmt.Sprintf("p%d", n), "1", "1"))
	}
	data := encoded(t, r, run())
	start := time.Now()
	if back, _, err := Read(data); err != nil || len(back.Packages) != len(r.Packages) {
		t.Errorf("%v", err)
	}
	more := bytes.Replace(data, []byte(`"resolvedDependencies":[`), []byte(`"resolvedDependencies":[`+strings.Repeat(`{"name":"x"},`, 19_000)), 1)
	if _, _, err := Read(more); !errors.Is(err, ErrFormat) {
		t.Errorf("%v", err)
	}
	if took := time.Since(start); took > time.Minute {
		t.Errorf("it took %v", took)
	}
}

func FuzzRead(f *testing.F) {
	data, err := New(example(), run()).Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		r, of, err := Read(data)
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Errorf("an error of no kind: %v", err)
			}
			return
		}
		if again, _, err := Read(encoded(t, r, of)); err != nil || !slices.Equal(again.Releases(), r.Releases()) {
			t.Errorf("read again: %v", err)
		}
	})
}

// TestReadToolkit: the image that modules were compiled in comes back by its digest, and one without a name
// or with another's form is refused or stays without a place.
func TestReadToolkit(t *testing.T) {
	t.Parallel()
	r := example()
	r.Compiler, r.Toolchain = nil, false
	sum := strings.Repeat("7", 64)
	for i := range r.Kernels {
		r.Kernels[i].Headers, r.Kernels[i].Toolkit = nil, &recipe.Base{Name: "quay.example.com/toolkit:4.18", Digest: "sha256:" + sum}
	}
	data := string(encoded(t, r, run()))
	assert.Contains(t, data, `"uri":"docker://quay.example.com/toolkit:4.18@sha256:`+sum)
	back, _, err := Read([]byte(data))
	require.NoError(t, err)
	assert.Same(t, r.Kernels, back.Kernels)
	for old, now := range map[string]string{
		`"sha256":"` + sum: `"sha256":"7`, "image with headers and compiler of " + r.Kernels[0].Release: "image with headers and compiler of 6.1.0-1-amd64",
		`"name":"quay.example.com/toolkit:4.18"`: `"name":"oci:/srv/toolkit"`,
	} {
		_, _, err := Read([]byte(strings.ReplaceAll(data, old, now)))
		assert.ErrorIs(t, err, ErrFormat)
	}
	r.Kernels[0].Toolkit.Name = ""
	back, _, err = Read(encoded(t, r, run()))
	require.NoError(t, err)
	assert.Equal(t, "", back.Kernels[0].Toolkit.Name)
}
