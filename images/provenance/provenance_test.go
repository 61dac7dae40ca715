package provenance

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	slsa "github.com/in-toto/attestation/go/predicates/provenance/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/goldentest"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/recipe"
)

func sum(digit string) string { return strings.Repeat(digit, 64) }

func deb(name, version, digit string) distros.Package {
	return distros.Package{Name: name, Version: version, Arch: "amd64", URL: "https://user:secret@deb.example.com/" + name + ".deb", SHA256: sum(digit)}
}

func example() *recipe.Recipe {
	return &recipe.Recipe{
		Schema: 1, System: "debian12", Driver: "535.261.03", Branch: "R535", Arch: "amd64", Tag: "535.261.03-debian12", Profile: recipe.Full,
		Flavours: []string{"proprietary", "open"}, Base: recipe.Base{Name: "docker.io/library/debian:12-slim", Digest: "sha256:" + sum("a")},
		Packages: []distros.Package{deb("kmod", "30", "1"), deb("libelf1", "0.188", "2"), {Name: "odd", Version: "1", Arch: "all", URL: "https://x/odd", SHA512: strings.Repeat("3", 128)}},
		Source:   recipe.Source{Runfile: &fetch.File{URL: "https://example.com/NVIDIA.run", SHA256: sum("4"), Size: 5}},
		Companions: []recipe.Companion{
			{Name: "gdrdrv", Version: "2.5.2", Licence: "MIT", File: &fetch.File{URL: "https://example.com/gdrcopy.tar.gz", SHA256: sum("d"), Size: 7}},
			{Name: "nvidia-fs", Version: "2.13.5", Licence: "MIT", Flavours: []string{"open"}, Package: companionPackage()},
		},
		Fabric:     []recipe.Component{{Name: "fabricmanager", Version: "535.261.03", File: fetch.File{URL: "https://example.com/fm.tar.xz", SHA256: sum("f"), Size: 6}}},
		Entrypoint: []recipe.Binary{{Name: "driver-entrypoint", SHA256: sum("5")}, {Name: "driver-probe", SHA256: sum("6")}},
		Compiler:   []distros.Package{deb("gcc-12", "12.2.0-14", "7")},
		Kernels:    []recipe.Kernel{{Release: "6.1.0-38-amd64", Headers: []distros.Package{deb("linux-headers-6.1.0-38-amd64", "6.1.1", "8")}}},
		Modules:    []string{"nvidia"}, PrecompiledFlavours: []string{"proprietary"}, Signer: sum("9"), Compression: recipe.Gzip, Epoch: 1700000000,
		Kernel: driverinfo.KernelRule{Max: "6.16"}, Overridden: []string{"kernel-too-new: it works"}, Builder: recipe.BuilderInfo{Version: "v1.2.3"},
	}
}

func run() Run {
	return Run{
		GoVersion: "go1.26.8", Runner: "chroot", Lock: &Resource{Name: "matrix.lock", Digest: map[string]string{"sha256": sum("b")}},
		Matrix:     &Resource{Name: "matrix.yaml", Digest: map[string]string{"sha256": sum("c")}},
		Byproducts: []Resource{{Name: "sbom.spdx.json", Digest: map[string]string{"sha256": sum("d")}, MediaType: "application/spdx+json"}},
	}
}

func encoded(t *testing.T, r *recipe.Recipe, of Run) []byte {
	t.Helper()
	return require.Value(New(r, of).Encode())(t)
}

// validate judges a predicate with the library of in-toto.
func validate(t *testing.T, data []byte) {
	t.Helper()
	var p slsa.Provenance
	require.NoError(t, protojson.Unmarshal(data, &p)) // it refuses unknown fields
	require.NoError(t, p.Validate())
}

func TestGolden(t *testing.T) {
	t.Parallel()
	data := encoded(t, example(), run())
	validate(t, data)
	goldentest.Compare(t, filepath.Join("testdata", "predicate.json"), strings.ReplaceAll(string(data), `},{`, "},\n{")+"\n")
	assert.Equalf(t, false, bytes.Contains(data, []byte("secret")), "credentials are in the provenance")
	later := run()
	later.Started, later.Finished, later.InvocationID, later.BuilderID = time.Unix(1, 0), time.Unix(2, 0), "https://ci/1", "https://ci/builder"
	validate(t, encoded(t, example(), later))
}

// TestDeterministic: the order of pins has no effect.
func TestDeterministic(t *testing.T) {
	t.Parallel()
	shuffled := example()
	rand.Shuffle(len(shuffled.Packages), func(a, b int) {
		shuffled.Packages[a], shuffled.Packages[b] = shuffled.Packages[b], shuffled.Packages[a]
	})
	slices.Reverse(shuffled.Entrypoint)
	slices.Reverse(shuffled.Flavours)
	assert.Same(t, string(encoded(t, example(), run())), string(encoded(t, shuffled, run())))
}

// TestComplete: every pin of a recipe is a dependency with its digest.
func TestComplete(t *testing.T) {
	t.Parallel()
	r := example()
	have := map[string]bool{}
	for _, d := range New(r, run()).BuildDefinition.Dependencies {
		for _, hex := range d.Digest {
			have[hex] = true
		}
	}
	want := []string{strings.TrimPrefix(r.Base.Digest, "sha256:"), r.Source.Runfile.SHA256, r.Fabric[0].File.SHA256, r.Signer, sum("b"), sum("c")}
	for _, p := range r.AllPackages() {
		want = append(want, strings.TrimPrefix(p.Digest(), "sha512:"))
	}
	for _, p := range r.Entrypoint {
		want = append(want, p.SHA256)
	}
	for _, hex := range want {
		assert.Equalf(t, true, have[hex], "no dependency %s", hex)
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	mirror := example()
	mirror.Packages[0].URL = "https://mirror.example.com/kmod.deb"
	once := run()
	once.InvocationID = "https://ci/run/1"
	for _, d := range require.Value(Compare(encoded(t, example(), once), encoded(t, mirror, run())))(t) {
		t.Errorf("a mirror and a run are no difference: %s", d)
	}
	other := example()
	other.Profile, other.Kernels[0].Release, other.Packages[0].SHA256, other.Packages = recipe.Compute, "6.1.0-39-amd64", sum("e"), other.Packages[:2]
	other.Builder.Version = "v1.2.4"
	with := run()
	with.Lock, with.Runner = nil, ""
	got := require.Value(Compare(encoded(t, example(), run()), encoded(t, other, with)))(t)
	assert.Same(t, []string{
		`the builder was "https://github.com/driver-container/driver-container/cmd/driver-build@v1.2.3", now it is "https://github.com/driver-container/driver-container/cmd/driver-build@v1.2.4"`,
		`builder driver-build was "v1.2.3", now it is "v1.2.4"`,
		`parameter dependenciesFrom was "lock", now it is "repositories"`,
		`parameter kernels[0] was "6.1.0-38-amd64", now it is "6.1.0-39-amd64"`,
		`parameter profile was "full", now it is "compute"`,
		`internal parameter runner was "chroot", now there is none`,
		`dependency headers of 6.1.0-38-amd64 linux-headers-6.1.0-38-amd64_6.1.1_amd64 was "sha256:` + sum("8") + `", now there is none`,
		`dependency headers of 6.1.0-39-amd64 linux-headers-6.1.0-38-amd64_6.1.1_amd64 is "sha256:` + sum("8") + `", the attested provenance has none`,
		`dependency lock matrix.lock was "sha256:` + sum("b") + `", now there is none`,
		`dependency package of the image kmod_30_amd64 was "sha256:` + sum("1") + `", now it is "sha256:` + sum("e") + `"`,
		`dependency package of the image odd_1_all was "sha512:` + strings.Repeat("3", 128) + `", now there is none`,
	}, got)
}

func TestCompareRefuses(t *testing.T) {
	t.Parallel()
	good := encoded(t, example(), run())
	for what, data := range map[string][]byte{
		"nothing":    nil,
		"no JSON":    []byte("x"),
		"more":       append(slices.Clone(good), '1'),
		"other type": bytes.Replace(good, []byte("build-type-v1"), []byte("build-type-v2"), 1),
		"deep":       bytes.Replace(good, []byte(`"system":"debian12"`), []byte(`"system":`+strings.Repeat("[", 40)+strings.Repeat("]", 40)), 1),
		"large":      append(slices.Clone(good), bytes.Repeat([]byte(" "), maxPredicate)...),
		"many":       bytes.Replace(good, []byte(`"resolvedDependencies":[`), []byte(`"resolvedDependencies":[`+strings.Repeat("{},", maxDependencies)), 1),
	} {
		if _, err := Compare(data, good); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := Compare(good, data); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestFromCI(t *testing.T) {
	t.Parallel()
	github := map[string]string{
		"GITHUB_ACTIONS": "true", "GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "acme/gpu", "GITHUB_RUN_ID": "17", "GITHUB_RUN_ATTEMPT": "2",
		"GITHUB_WORKFLOW_REF": "acme/gpu/.github/workflows/images.yml@refs/heads/main", "GITHUB_REF": "refs/heads/main", "GITHUB_SHA": strings.Repeat("01", 20),
	}
	gitlab := map[string]string{
		"GITLAB_CI": "true", "CI_PROJECT_URL": "https://gitlab.example.com/acme/gpu", "CI_RUNNER_ID": "3", "CI_JOB_URL": "https://gitlab.example.com/acme/gpu/-/jobs/4",
		"CI_COMMIT_REF_NAME": "main", "CI_COMMIT_SHA": strings.Repeat("45", 20),
	}
	for what, c := range map[string]struct {
		env  map[string]string
		want CI
	}{
		"github": {github, CI{
			"https://github.com/acme/gpu/.github/workflows/images.yml@refs/heads/main", "https://github.com/acme/gpu/actions/runs/17/attempts/2",
			Resource{URI: "git+https://github.com/acme/gpu@refs/heads/main", Digest: map[string]string{"gitCommit": strings.Repeat("01", 20)}},
		}},
		"gitlab": {gitlab, CI{
			"https://gitlab.example.com/acme/gpu/-/runners/3", "https://gitlab.example.com/acme/gpu/-/jobs/4",
			Resource{URI: "git+https://gitlab.example.com/acme/gpu@refs/heads/main", Digest: map[string]string{"gitCommit": strings.Repeat("45", 20)}},
		}},
	} {
		got, ok := FromCI(func(name string) string { return c.env[name] })
		assert.Equalf(t, true, ok, "%s", what)
		assert.Same(t, c.want, got)
		of := run()
		of.BuilderID, of.InvocationID, of.Configs = got.BuilderID, got.InvocationID, []Resource{got.Config}
		validate(t, encoded(t, example(), of))
	}
	delete(github, "GITHUB_RUN_ID")
	for _, env := range []map[string]string{nil, github, {"GITLAB_CI": "true"}} {
		if ci, ok := FromCI(func(name string) string { return env[name] }); ok {
			t.Errorf("%+v", ci)
		}
	}
}

// BenchmarkEncode is the predicate of an image with 150 packages and one kernel.
func BenchmarkEncode(b *testing.B) {
	r := example()
	for n := range 150 {
		r.Packages = append(r.Packages, deb(strings.Repeat("p", n+1), "1", "1"))
	}
	for b.Loop() {
		if _, err := New(r, run()).Encode(); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzCompare(f *testing.F) {
	data, err := New(example(), run()).Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, other []byte) {
		if _, err := Compare(data, other); err != nil && !errors.Is(err, ErrFormat) {
			t.Errorf("an error of no kind: %v", err)
		}
	})
}

// TestRedistSource: a provenance says in which form the driver's archive was, so that a rebuild reads it so.
func TestRedistSource(t *testing.T) {
	t.Parallel()
	r := example()
	want := r.Source.Runfile
	r.Source = recipe.Source{Redist: want}
	back, _, err := Read(encoded(t, r, run()))
	if err != nil || back.Source.Runfile != nil || back.Source.Redist == nil || back.Source.Redist.SHA256 != want.SHA256 {
		t.Errorf("%+v, %v", back, err)
	}
	odd := bytes.Replace(encoded(t, r, run()), []byte(`"format":"redist"`), []byte(`"format":"rpm"`), 1)
	_, _, err = Read(odd)
	assert.ErrorContains(t, err, `unknown format "rpm"`)
}

func companionPackage() *distros.Package {
	p := deb("nvidia-fs-dkms", "2.13.5~11.8.0-5", "e")
	return &p
}
