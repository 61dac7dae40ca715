package recipe

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/matrix"
)

func deb(name string) distros.Package {
	return distros.Package{Name: name, Version: "1", Arch: "amd64", URL: "https://deb.example.com/" + name, SHA256: strings.Repeat("1", 64),
		Size: 3, Replaces: "0", Keys: []string{"AB"}}
}

// whole has every field.
func whole(t *testing.T) *Recipe {
	t.Helper()
	d := require.Value(distros.Lookup("debian12"))(t)
	fs := deb("nvidia-fs-dkms")
	return &Recipe{
		Schema: Version, System: "debian12", Distro: d, Driver: "535.261.03", Branch: "R535", Arch: "amd64", Tag: "535.261.03-debian12", Profile: Full,
		Links: d.Links(), LibDir: d.LibDir("amd64"), LibDir32: d.LibDir32("amd64"), Aliases: []string{"535-debian12"}, Flavours: []string{"proprietary"},
		Asked: Request{Base: "debian:12", Mirror: "https://x", Components: []string{"contrib"}, KernelFrom: []string{"y"},
			Wants: Wants{Image: []string{"kmod"}, Assumed: []string{"dpkg"}}},
		Base: Base{Name: "docker.io/library/debian:12-slim", Digest: "sha256:" + strings.Repeat("a", 64)},
		Repositories: []matrix.Repository{{URIs: []string{"https://x/deb"}, Suites: []string{"s"}, Components: []string{"main"},
			Key: "KEY"}}, OnlyThese: true,
		Packages: []distros.Package{deb("gcc")}, Source: Source{Runfile: &fetch.File{URL: "https://example.com/x.run",
			SHA256: strings.Repeat("4", 64), Size: 5}},
		Fabric: []Component{{Name: matrix.FabricManager, Version: "535.261.03", File: fetch.File{URL: "https://x/fm",
			SHA256: strings.Repeat("5", 64)}}},
		Companions: []Companion{{Name: "nvidia-fs", Version: "2.13.5", Licence: "MIT", Package: &fs}},
		Patches: []matrix.Patch{{Name: "b", SHA256: strings.Repeat("5", 64), URL: "https://x/b.patch", Flavours: []string{matrix.Open},
			Kernels: []driverinfo.Span{{From: "6.12"}}}},
		Entrypoint: []Binary{{Name: EntrypointName, SHA256: strings.Repeat("6",
			64)}}, Compiler: []distros.Package{deb("gcc-12")}, Toolchain: true, Sources: true, KMM: true, Distroless: true,
		Kernels: []Kernel{{Release: "6.1.0-38-amd64", Headers: []distros.Package{deb("headers")}}, {Release: "4.18",
			Toolkit: &Base{Name: "quay.example.com/toolkit:4.18", Digest: "sha256:" + strings.Repeat("7", 64)}}},
		PrecompiledFlavours: []string{"proprietary"}, Modules: []string{"nvidia"}, Signer: strings.Repeat("9",
			64), Compression: Gzip, Epoch: 1700000000, VGPU: driverinfo.VGPUAWS,
		Kernel: driverinfo.KernelRule{Max: "6.16", Reason: "it was tried"}, CUDA: "12.2", Advisories: []driverinfo.Advisory{{ID: "x",
			Kind: driverinfo.KnownBad, Reason: "r", Source: "s"}},
		Overridden: []string{"kernel-too-new: it works"}, Builder: BuilderInfo{Version: "v1.2.3"},
	}
}

// TestDecode: a recipe comes back whole.
func TestDecode(t *testing.T) {
	t.Parallel()
	r := whole(t)
	for field, value := range reflect.ValueOf(r).Elem().Fields() {
		assert.Equalf(t, false, value.IsZero(), "the recipe has no %s: does Decode lose it?", field.Name)
	}
	for _, source := range []Source{r.Source, {Redist: r.Source.Runfile}, {Packages: []distros.Package{deb("libcuda1")}}} {
		r.Source = source
		back := require.Value(Decode(require.Value(json.Marshal(r))(t)))(t)
		assert.Equal(t, r.Distro.ID(), back.Distro.ID())
		back.Distro = r.Distro
		assert.Equal(t, true, reflect.DeepEqual(r, back))
	}
}

// TestDecodeRefuses: values that are no options, and what nobody understands.
func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	good := string(require.Value(json.Marshal(whole(t)))(t))
	base := `"base":{"name":"docker.io/library/debian:12-slim"`
	for _, c := range [][2]string{
		{`"schema":1`, `"schema":2`}, {`"system":"debian12"`, `"system":"debian12","more":1`}, {`"system":"debian12"`,
			`"system":"plan9"`}, {`"arch":"amd64","tag"`, `"arch":"pdp11","tag"`},
		{`"driver":"535.261.03"`, `"driver":"../../535.261.03"`}, {`"profile":"full"`, `"profile":"half"`}, {`"compression":"gzip"`,
			`"compression":"lzh"`},
		{`"epoch":1700000000`, `"epoch":-1`}, {`"epoch":1700000000`, `"epoch":99999999999999`}, {`"epoch":1700000000`, `"epoch":"now"`},
		{base, `"base":{"name":"oci:/etc"`}, {base, `"base":{"name":"../x"`}, {base, `"base":{"name":"debian@sha256:` + strings.Repeat("1",
			64) + `"`},
		{`"digest":"sha256:a`, `"digest":"sha256:../a`}, {`"modules":["nvidia"]`,
			`"modules":["nvidia","--help"]`}, {`"release":"6.1.0-38-amd64"`, `"release":"$(reboot)"`},
		{`"precompile":["proprietary"]`, `"precompile":["free"]`}, {`"precompile":["proprietary"],`, ``}, {`"signer":"9`,
			`"signer":"x`}, {`"tag":"535.261.03-debian12"`, `"tag":"a b"`},
		{`"aliases":["535-debian12"]`, `"aliases":["a/b"]`}, {`https://deb.example.com/gcc"`,
			`file:///etc/passwd"`}, {`https://deb.example.com/gcc"`, `http://["`},
		{`"sha256":"1`, `"sha256":"../1`}, {`"version":"1"`, `"version":""`}, {`"size":3`, `"size":-1`}, {`"sha256":"4`, `"sha256":"A`},
		{`"vgpu":"` + driverinfo.VGPUAWS, `"vgpu":"x`}, {`"source":{"runfile"`,
			`"source":{"packages":[{}],"runfile"`}, {`{"name":"fabricmanager"`, `{"name":"../x"`},
		{`{"name":"nvidia-fs"`, `{"name":"x"`}, {`"licence":"MIT","package"`,
			`"licence":"MIT","file":{"url":"x"},"package"`}, {`"url":"https://x/b.patch"`, `"url":"/etc/x"`},
		{`"url":"https://x/b.patch"`, `"text":"x"`}, {`"flavours":["open"]`, `"flavours":["x"]`}, {`"name":"quay.example.com/toolkit:4.18"`,
			`"name":"oci:/srv/toolkit"`},
	} {
		data := strings.Replace(good, c[0], c[1], 1)
		if data == good {
			t.Errorf("%s is not in the recipe", c[0])
		}
		if r, err := Decode([]byte(data)); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %+v, %v", c[1], r, err)
		}
	}
	for _, data := range []string{"", "{}", "[]", good + "1", strings.Repeat(" ", maxBytes+1)} {
		assert.ErrorIs(t, assert.Err(Decode([]byte(data))), ErrFormat)
	}
}
