package documents

import (
	"bytes"
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	slsa "github.com/in-toto/attestation/go/predicates/provenance/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/goldentest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/recipe"
)

func digits(digit string) string { return strings.Repeat(digit, 64) }

func deb(name, version, digit string) distros.Package {
	return distros.Package{Name: name, Version: version, Arch: "amd64", URL: "https://user:secret@deb.example.com/" + name + ".deb",
		SHA256: digits(digit)}
}

func example() *recipe.Recipe {
	return &recipe.Recipe{
		Schema: 1, System: "debian12", Driver: "535.261.03", Branch: "R535", Arch: "amd64", Tag: "535.261.03-debian12", Profile: recipe.Full,
		Flavours: []string{"proprietary", "open"}, Base: recipe.Base{Name: "docker.io/library/debian:12-slim", Digest: "sha256:" + digits("a")},
		Packages: []distros.Package{deb("kmod", "30", "1"), deb("libelf1", "0.188", "2"), {Name: "odd", Version: "1", Arch: "all",
			URL: "https://x/odd", SHA512: strings.Repeat("3", 128)}},
		Source: recipe.Source{Runfile: &fetch.File{URL: "https://example.com/NVIDIA.run", SHA256: digits("4"), Size: 5}},
		Companions: []recipe.Companion{
			{Name: "gdrdrv", Version: "2.5.2", Licence: "MIT", File: &fetch.File{URL: "https://example.com/gdrcopy.tar.gz", SHA256: digits("d"),
				Size: 7}},
			{Name: "nvidia-fs", Version: "2.13.5", Licence: "MIT", Flavours: []string{"open"}, Package: companionPackage()},
		},
		Fabric: []recipe.Component{{Name: "fabricmanager", Version: "535.261.03", File: fetch.File{URL: "https://example.com/fm.tar.xz",
			SHA256: digits("f"), Size: 6}}},
		Entrypoint: []recipe.Binary{{Name: "driver-entrypoint", SHA256: digits("5")}, {Name: "driver-probe", SHA256: digits("6")}},
		Compiler:   []distros.Package{deb("gcc-12", "12.2.0-14", "7")},
		Kernels:    []recipe.Kernel{{Release: "6.1.0-38-amd64", Headers: []distros.Package{deb("linux-headers-6.1.0-38-amd64", "6.1.1", "8")}}},
		Modules:    []string{"nvidia"}, PrecompiledFlavours: []string{"proprietary"}, Signer: digits("9"), Compression: recipe.Gzip, Epoch: 1700000000,
		Kernel: driverinfo.KernelRule{Max: "6.16"}, Overridden: []string{"kernel-too-new: it works"}, Builder: recipe.BuilderInfo{Version: "v1.2.3"},
	}
}

func run() Run {
	return Run{GoVersion: "go1.26.8", Lock: Resource{Name: "matrix.lock", Digest: map[string]string{"sha256": digits("b")}}}
}

func encoded(t *testing.T, r *recipe.Recipe, of Run) []byte {
	t.Helper()
	return require.Value(Provenance(r, of))(t)
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
	goldentest.Compare(t, filepath.Join("testdata", "provenance.json"), strings.ReplaceAll(string(data), `},{`, "},\n{")+"\n")
	assert.Equalf(t, false, bytes.Contains(data, []byte("secret")), "credentials are in the provenance")
	assert.Same(t, string(data), string(encoded(t, example(), run())))
}

// TestReadRecipe: the recipe of a provenance comes back whole, and so does one that is printed.
func TestReadRecipe(t *testing.T) {
	t.Parallel()
	for what, data := range map[string][]byte{
		"provenance": encoded(t, example(), run()), "recipe": require.Value(json.Marshal(example().Public()))(t),
	} {
		r, err := ReadRecipe(data)
		require.NoError(t, err)
		r.Links, r.LibDir, r.LibDir32 = nil, "", "" // of the system
		assert.Samef(t, string(require.Value(json.Marshal(example().Public()))(t)), string(require.Value(json.Marshal(r))(t)), "%s", what)
	}
	good := string(encoded(t, example(), run()))
	for change, want := range map[[2]string]string{
		{"trust.md#build-type-v2", "supply-chain.md#build-type-v1"}: "an earlier driver-build wrote it, without the recipe",
		{"build-type-v2", "build-type-v3"}:                          "the build type is",
		{`"role":"compiler"`, `"role":"x"`}:                         "the recipe has compiler gcc-12_12.2.0-14_amd64",
		{good, "x"}:                                                 "invalid character",
		{good, good + strings.Repeat(" ", maxProvenance)}:           "larger than",
		{`"externalParameters":{`, `"externalParameters":{"x":1,`}:  "unknown field",
	} {
		_, err := ReadRecipe([]byte(strings.Replace(good, change[0], change[1], 1)))
		assert.ErrorContains(t, err, want)
		assert.Equalf(t, failure.Content, failure.KindOf(err), "%v", err)
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
			Resource{URI: "git+https://gitlab.example.com/acme/gpu@refs/heads/main", Digest: map[string]string{"gitCommit": strings.Repeat("45",
				20)}},
		}},
	} {
		got, err := FromCI(func(name string) string { return c.env[name] })
		require.NoErrorf(t, err, "%s", what)
		assert.Same(t, c.want, got)
		of := run()
		of.CI = got
		validate(t, encoded(t, example(), of))
	}
	_, err := FromCI(func(string) string { return "" })
	assert.ErrorContains(t, err, "not that of a job")
	for name, env := range map[string]map[string]string{
		"GITHUB_SERVER_URL": github, "GITHUB_REPOSITORY": github, "GITHUB_WORKFLOW_REF": github, "GITHUB_RUN_ID": github,
		"CI_PROJECT_URL": gitlab, "CI_RUNNER_ID": gitlab, "CI_JOB_URL": gitlab,
	} {
		rest := maps.Clone(env)
		delete(rest, name)
		_, err := FromCI(func(name string) string { return rest[name] })
		assert.ErrorContains(t, err, "the environment of the job lacks "+name)
	}
}

func FuzzReadRecipe(f *testing.F) {
	data, err := Provenance(example(), run())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := ReadRecipe(data)
		if err != nil {
			assert.Equalf(t, failure.Content, failure.KindOf(err), "%v", err)
			return
		}
		if again, err := ReadRecipe(encoded(t, r, Run{})); err != nil || !slices.Equal(again.Releases(), r.Releases()) {
			t.Errorf("read again: %v", err)
		}
	})
}

func companionPackage() *distros.Package {
	p := deb("nvidia-fs-dkms", "2.13.5~11.8.0-5", "e")
	return &p
}
