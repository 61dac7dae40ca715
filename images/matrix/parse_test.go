package matrix

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	drivercontainer "github.com/driver-container/driver-container"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

const goodSystem = `{id: debian12, base: "example.com/debian:12", archs: [amd64, arm64], kernels: [6.1]}`

const goodSum = "fe6dcba384d67e906fad3cdc707fb6b0993cf190fc694660b70224d49a69144f"

// driverYAML returns a correct driver with additional keys.
func driverYAML(version, more string) string {
	return fmt.Sprintf(`{version: %s, archives: {amd64: {url: "https://example.com/d/x.run", sha256: %s}}%s}`, version, goodSum, more)
}

// guestYAML returns a correct vGPU guest driver, if the end of the archive's name goes with the licence.
func guestYAML(ending, licence string) string {
	return fmt.Sprintf(`{version: 535.261.03, vgpu: %s, archives: {amd64: {url: "file:///srv/NVIDIA-Linux-x86_64-535.261.03%s", sha256: %s}}}`, licence, ending, goodSum)
}

// TestGuest: rows of vGPU guest drivers.
func TestGuest(t *testing.T) {
	t.Parallel()
	for ending, licence := range map[string]string{
		"-grid.run": "nvidia", "-grid-aws.run": "aws", "-grid-azure.run": "azure", "-grid-gcp.run": "google",
	} {
		m := require.Value(Parse("m", []byte(file(goodSystem, guestYAML(ending, licence)+", "+driverYAML("550.1.1", ""), ""))))(t)
		assert.Equalf(t, licence, m.Drivers[0].VGPU, "%s", ending)
	}
}

// file joins the parts of a file.
func file(systems, drivers, more string) string {
	return "systems: [" + systems + "]\ndrivers: [" + drivers + "]\n" + more
}

func TestParseMistakes(t *testing.T) {
	t.Parallel()
	good := driverYAML("535.261.03", "")
	system := func(more string) string { return strings.TrimSuffix(goodSystem, "}") + more + "}" }
	rocky := func(more string) string { return strings.Replace(system(more), "debian12", "rocky9", 1) }
	archive := func(a string) string { return `{version: 535.261.03, archives: {amd64: ` + a + `}}` }
	debian := func(d string) string { return driverYAML("535.261.03", ", debian: "+d) }
	const deb = `systems: {debian12: 535.261.03-1}, packages: [libcuda1], kernel: [nvidia-kernel-source]`
	tests := []struct{ name, yaml, want string }{
		{"empty", "", "the file is empty"},
		{"scalar", "hello\n", "the matrix must be a mapping"},
		{"not utf-8", "a: 1\nb: \xff\n", "m:2:4: not UTF-8"},
		{"broken yaml", "systems: [\n", "m:2:1: not valid YAML"},
		{"two documents", file(goodSystem, good, "---\na: 1\n"), "m:3:1: a second document"},
		{"no systems", "drivers: [" + good + "]\n", "m:1:1: the matrix has no key systems"},
		{"empty list", file("", good, ""), "systems is an empty list"},
		{"top-level key", file(goodSystem, good, "sytems: []\n"), `m:3:1: unknown key "sytems" in the matrix (did you mean systems?)`},
		{"key twice", file(goodSystem, good, "drivers: []\n"), `key "drivers" appears twice in the matrix: first on line 2`},
		{"key not a word", file(goodSystem, good, "[a]: b\n"), "must be a word, not a list"},
		{"null value", file(goodSystem, good, "exclude:\n"), "exclude must be a list, not empty"},
		{"system twice", file(goodSystem+","+goodSystem, good, ""), `system "debian12" appears twice: first on line 1`},
		{"unknown system", file(strings.Replace(goodSystem, "debian12", "debain12", 1), good, ""), "(did you mean debian12"},
		{"driver twice", file(goodSystem, good+","+good, ""), `driver "535.261.03" appears twice`},
		{"driver twice, written otherwise", file(goodSystem, good+","+driverYAML("535.261.3", ""), ""), "is the same release as 535.261.03"},
		{"version", file(goodSystem, driverYAML("535.x", ""), ""), `version "535.x" is no driver version`},
		{"version a list", file(goodSystem, driverYAML(`[1]`, ""), ""), "version must be a single value, not a list"},
		{"branch", file(goodSystem, driverYAML("535.261.03", ", branch: R550"), ""), "must be R535"},
		{"no source", file(goodSystem, "{version: 535.261.03}", ""), "driver 535.261.03 has no source"},
		{"flavour", file(goodSystem, driverYAML("535.261.03", ", flavours: [opem]"), ""), "(did you mean open?)"},
		{"flavour of the past", file(goodSystem, driverYAML("615.71.09", ", flavours: [proprietary, open]"), ""), "has no proprietary kernel modules: they ended with 614"},
		{"flavour twice", file(goodSystem, driverYAML("535.261.03", ", flavours: [open, open]"), ""), `"open" appears twice in flavours`},
		{"arch", file(system(", components: [x]"), strings.Replace(good, "amd64", "amd46", 1), ""), `key "amd46" of archives is not known (did you mean amd64?)`},
		{"sha256 upper case", file(goodSystem, archive(`{url: "https://example.com/x.run", sha256: `+strings.ToUpper(goodSum)+`}`), ""), "is no sha256"},
		{"sha256 missing", file(goodSystem, archive(`{url: "https://example.com/x.run"}`), ""), "an archive has no key sha256"},
		{"size zero", file(goodSystem, archive(`{url: "https://example.com/x.run", sha256: `+goodSum+`, size: 0}`), ""), "greater than 0"},
		{"url scheme", file(goodSystem, archive(`{url: "ftp://example.com/x.run", sha256: `+goodSum+`}`), ""), "must begin with https://"},
		{"sha256 zeros", file(goodSystem, archive(`{url: "https://example.com/x.run", sha256: "`+strings.Repeat("0", 64)+`"}`), ""), "is a placeholder"},
		{"open too early", file(goodSystem, driverYAML("390.157", ", flavours: [open]"), ""), "driver 390.157 has no open kernel modules"},
		{"key on the web", file(system(`, repositories: [{uris: ["https://example.com/r"], suites: [s], components: [main], key: "https://example.com/k"}]`), good, ""), "is a web address"},
		{"tab", "systems:\n\t- id: debian12\n", "m:2:1: not valid YAML: a tab"},
		{"NUL", "systems:\n  - id: deb\x00ian12\n", "m:2:12: the control character U+0000"},
		{"default repository with scheme", file(goodSystem, good, "defaults: {repository: 'https://h.example/a'}\n"), "give h.example/a"},
		{"url suffix", file(goodSystem, archive(`{url: "https://example.com/x.zip", sha256: `+goodSum+`}`), ""), "must have a path that ends in .run"},
		{"url host", file(goodSystem, archive(`{url: "https:///x.run", sha256: `+goodSum+`}`), ""), "names no host"},
		{"url secret", file(goodSystem, archive(`{url: "https://me:pw@example.com/x.run", sha256: `+goodSum+`}`), ""), "no user name or password"},
		{"url query", file(goodSystem, archive(`{url: "https://example.com/x.run?a.run", sha256: `+goodSum+`}`), ""), "no query"},
		{"kernel limit", file(goodSystem, driverYAML("535.261.03", ", kernel: {max: 6.x, reason: r}"), ""), "is no kernel series"},
		{"kernel reason", file(goodSystem, driverYAML("535.261.03", ", kernel: {max: 6.1}"), ""), "kernel max 6.1 has no reason"},
		{"kernel limits crossed", file(goodSystem, driverYAML("535.261.03", ", kernel: {min: 6.12, max: 6.2, reason: r}"), ""), "min 6.12 is above max 6.2"},
		{"broken kernels without reason", file(goodSystem, driverYAML("535.261.03", ", kernel: {broken: [{from: 6.1.187}]}"), ""), "a range of broken kernels has no key reason"},
		{"broken kernels crossed", file(goodSystem, driverYAML("535.261.03", ", kernel: {broken: [{from: 6.2, below: 6.1.9, reason: r}]}"), ""), "begins at 6.2, which is not below 6.1.9"},
		{"broken kernels twice", file(goodSystem, driverYAML("535.261.03", ", kernel: {broken: [{from: 6.1.187, below: 6.2, flavours: [open], reason: r}, {from: 6.1.190, reason: s}]}"), ""),
			"the kernels from 6.1.190 on are in two ranges of the same flavour: the other is in line"},
		{"flavour of broken kernels", file(goodSystem, driverYAML("535.261.03", ", kernel: {broken: [{from: 6.2, flavours: [opem], reason: r}]}"), ""), "(did you mean open?)"},
		{"cuda", file(goodSystem, driverYAML("535.261.03", ", cuda: 12.8.1"), ""), `cuda "12.8.1" is no version of CUDA, such as 12.8`},
		{"kernels not in order", file(strings.Replace(goodSystem, "6.1]", "6.12, 6.2]", 1), good, ""), "kernel 6.2 after 6.12"},
		{"base", file(strings.Replace(goodSystem, "debian:12", "Debian:12", 1), good, ""), "is no image reference"},
		{"base without tag", file(strings.Replace(goodSystem, "debian:12\"", "debian\"", 1), good, ""), "names neither a tag nor a digest"},
		{"allow-expired", file(system(", allow-expired: maybe"), good, ""), "must be true or false"},
		{"repository without key", file(system(`, repositories: [{uris: ["https://example.com/r"], suites: [s], components: [main]}]`), good, ""), "a repository has no key key"},
		{"repository of neither kind", file(system(`, repositories: [{suites: [s], components: [main], key: k}]`), good, ""), "a repository has no key uris"},
		{"repository of both kinds", file(system(`, repositories: [{baseurl: ["https://example.com/r"], uris: ["https://example.com/r"], key: k}]`), good, ""), "both baseurl and uris"},
		{"repository of the other kind", file(system(`, repositories: [{baseurl: ["https://example.com/r"], key: k}]`), good, ""), "its packages are .deb"},
		{"repository of the other kind, rpm", file(rocky(`, repositories: [{uris: ["https://example.com/r"], suites: [s], components: [main], key: k}]`), good, ""), "its packages are .rpm"},
		{"rpm repository without key", file(rocky(`, repositories: [{baseurl: ["https://example.com/r"]}]`), good, ""), "needs either gpgkey or key"},
		{"gpgkey on the web", file(rocky(`, repositories: [{baseurl: ["https://example.com/r"], gpgkey: ["https://example.com/k"]}]`), good, ""), "is no absolute path in the base"},
		{"gpgkey of deb", file(system(`, repositories: [{uris: ["https://example.com/r"], suites: [s], components: [main], key: k, gpgkey: [/k]}]`), good, ""), "both uris and gpgkey"},
		{"only none", file(system(`, only-these-repositories: true`), good, ""), "there would be none"},
		{"components of rpm", file(rocky(`, components: [main]`), good, ""), "repositories of rpm packages have none"},
		{"guest driver without vgpu", file(goodSystem, archive(`{url: "https://example.com/NVIDIA-Linux-x86_64-535.261.03-grid.run", sha256: `+goodSum+`}`), ""), "is a vGPU guest driver: add the key vgpu"},
		{"host driver", file(goodSystem, archive(`{url: "https://example.com/NVIDIA-Linux-x86_64-535.261.03-vgpu-kvm.run", sha256: `+goodSum+`}`), ""), "is the driver of a vGPU host"},
		{"vgpu of another driver", file(goodSystem, driverYAML("535.261.03", ", vgpu: aws"), ""), "does not end in -grid.run"},
		{"vgpu of an unknown cloud", file(goodSystem, guestYAML("-grid.run", "asw"), ""), "(did you mean aws?)"},
		{"vgpu of another cloud", file(goodSystem, guestYAML("-grid-azure.run", "aws"), ""), "is licensed for azure, the key vgpu says aws"},
		{"vgpu on arm64", file(goodSystem, strings.Replace(guestYAML("-grid.run", "nvidia"), "amd64", "arm64", 1), ""), "for amd64 only"},
		{"vgpu with debian", file(goodSystem, strings.TrimSuffix(guestYAML("-grid.run", "nvidia"), "}")+", debian: {"+deb+"}}", ""), "has both vgpu and debian"},
		{"vgpu with components", file(goodSystem, strings.TrimSuffix(guestYAML("-grid.run", "nvidia"), "}")+`, components: {imex: {amd64: {url: "https://example.com/nvidia_imex-linux-x86_64-535.261.03-archive.tar.xz", sha256: `+goodSum+`}}}}`, ""), "has both vgpu and components"},
		{"local file of another driver", file(goodSystem, archive(`{url: "file:///srv/NVIDIA-Linux-x86_64-535.261.03.run", sha256: `+goodSum+`}`), ""), "must begin with https://"},
		{"local file that climbs", file(goodSystem, archive(`{url: "file:///srv/../NVIDIA-Linux-x86_64-535.261.03-grid.run", sha256: `+goodSum+`}`), ""), "is no absolute path after file://"},
		{"alias", file(rocky(`, aliases: [Rocky]`), good, ""), "is no name of a system"},
		{"alias of a system", file(rocky(`, aliases: [rocky8]`), good, ""), `alias "rocky8" is the id of a system`},
		{"alias twice", file(rocky(`, aliases: [rocky9.4, rocky9.4]`), good, ""), `"rocky9.4" appears twice in aliases`},
		{"profile", file(goodSystem, good, "defaults: {profile: ful}\n"), "(did you mean full?)"},
		{"default repository", file(goodSystem, good, "defaults: {repository: 'Not A Repo'}\n"), "is no repository"},
		{"mirrors", file(goodSystem, good, "defaults: {mirrors: {'a b': [x]}}\n"), "is no registry host"},
		{"exclude nothing", file(goodSystem, good, "exclude: [{reason: r}]\n"), "would exclude everything"},
		{"exclude without reason", file(goodSystem, good, "exclude: [{system: debian12}]\n"), "an exclusion has no key reason"},
		{"exclude unknown system", file(goodSystem, good, "exclude: [{system: debian21, reason: r}]\n"), `system "debian21" is no known system (did you mean debian11?)`},
		{"exclude unknown driver", file(goodSystem, good, "exclude: [{driver: 535.261.02, reason: r}]\n"), `(did you mean 535.261.03?)`},
		{"exclude bad pattern", file(goodSystem, good, "exclude: [{driver: '*.01', reason: r}]\n"), "is neither a driver version nor a pattern"},
		{"debian unknown system", file(goodSystem, debian("{"+strings.Replace(deb, "debian12", "debian99", 1)+"}"), ""), `key "debian99" of systems is no known system`},
		{"debian other version", file(goodSystem, debian("{"+strings.Replace(deb, "535.261.03-1", "535.309.01-1", 1)+"}"), ""), "is not one of driver 535.261.03"},
		{"debian package", file(goodSystem, debian("{"+strings.Replace(deb, "libcuda1", "LibCuda", 1)+"}"), ""), "is no package name"},
		{"debian arch", file(goodSystem, debian("{"+deb+", only: {amd46: [x1]}}"), ""), "(did you mean amd64?)"},
		{"anchor", file(goodSystem, "&a "+good, ""), "uses a YAML anchor or alias"},
		{"tag", file(goodSystem, good, "exclude: !!binary aGk=\n"), "has a YAML tag"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m, err := Parse("m", []byte(tt.yaml))
			var errs Errors
			if m != nil || !errors.As(err, &errs) || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("Parse = %v, %v; want a mistake with %q\n%s", m, err, tt.want, tt.yaml)
			}
			if len(errs) > 2 {
				t.Errorf("one mistake is reported as %d:\n%v", len(errs), err)
			}
		})
	}
}

// TestParseGood: values are as written, and a tab inside of a text is no mistake.
func TestParseGood(t *testing.T) {
	t.Parallel()
	text := file(goodSystem, driverYAML("595.10", ", branch: R595"), "exclude:\n  - system: debian12\n    reason: |\n      a\n      \tb\n")
	m := require.Value(Parse("m", []byte(text)))(t)
	if d := m.Drivers[0]; d.Version != "595.10" || d.Branch != "R595" || len(d.Flavours) != 2 || m.Systems[0].Kernels[0] != "6.1" {
		t.Errorf("values are not as written: %+v", d)
	}
}

// Attempts of a hostile file: size, depth, aliases that multiply, very many mistakes.
func TestParseHostile(t *testing.T) {
	t.Parallel()
	var bomb strings.Builder
	bomb.WriteString("a: &a [x,x,x,x,x,x,x,x,x]\n")
	for c := 'b'; c <= 'k'; c++ {
		fmt.Fprintf(&bomb, "%c: &%c [*%c,*%c,*%c,*%c,*%c]\n", c, c, c-1, c-1, c-1, c-1, c-1)
	}
	tests := []struct{ name, yaml, want string }{
		{"too long", strings.Repeat("#", MaxSize+1), "are too many for a matrix"},
		{"alias bomb", bomb.String(), `unknown key "k"`},
		{"alias bomb in a value", "systems: [&a [x, x], &b [*a, *a]]\n", "anchor or alias"},
		{"alias of itself", "systems: &a [*a]\n", "anchor or alias"},
		{"merge of itself", "systems: [&a {<<: *a}]\n", "anchor or alias"},
		{"deep flow", strings.Repeat("[", 10000), "not valid YAML"},
		{"deep block", strings.Repeat("- ", 10000), "not valid YAML"},
		{"many mistakes", "systems:\n" + strings.Repeat("- x\n", 200000), "too many mistakes"},
		{"many keys", strings.Repeat("- [x]\n? [y]\n", 3), "not valid YAML"},
		{"long word", strings.Repeat("x", 500000) + ": 1\n", `xxx"...`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse("m", []byte(tt.yaml))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("Parse = %.300v; want %q", err, tt.want)
			}
			if len(err.Error()) > 64*1024 {
				t.Errorf("the message is %d bytes long", len(err.Error()))
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add(drivercontainer.Matrix)
	f.Add([]byte(file(goodSystem, driverYAML("535.261.03", ""), "exclude: [{driver: 535.*, reason: r}]\n")))
	f.Add([]byte("a: &a [*a]\n"))
	f.Add([]byte("systems: [{id: x}]\ndrivers: [{version: 18.10}]\n---\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Parse("m", data)
		if err != nil {
			if errs, ok := errors.AsType[Errors](err); !ok || len(errs) == 0 || m != nil {
				t.Fatalf("Parse = %v, %T %v", m, err, err)
			}
			return
		}
		if _, err := m.Select(Selection{All: true, Archs: knownArchs}); err != nil {
			t.Fatalf("Select(All) = %v", err)
		}
		for _, d := range m.Drivers {
			if !strings.Contains(string(data), strings.Split(d.Version, ".")[0]) {
				t.Fatalf("version %q is not in the text", d.Version)
			}
		}
	})
}

func TestRepositories(t *testing.T) {
	t.Parallel()
	systems := `{id: rocky9, base: "example.com/rocky:9", archs: [amd64], kernels: [5.14], aliases: [rocky9.4, rhcos4.18], only-these-repositories: true,
  repositories: [{baseurl: ["https://example.com/$releasever/$basearch/os/"], gpgkey: ["file:///etc/pki/rpm-gpg/KEY", /etc/pki/rpm-gpg/OLD]},
    {baseurl: ["https://example.com/a/", "https://example.org/a/"], key: site.asc}]},
  {id: flatcar, base: "example.com/debian:13", archs: [amd64], kernels: [6.6], aliases: [flatcar4081.2.0], components: [contrib],
  repositories: [{uris: ["https://example.com/"], suites: [s], components: [main], key: site.asc}]}`
	m := require.Value(Parse("m", []byte(file(systems, driverYAML("535.261.03", ""), ""))))(t)
	want := []System{
		{
			ID: "rocky9", Base: "example.com/rocky:9", Archs: []string{"amd64"}, Kernels: []string{"5.14"}, Aliases: []string{"rocky9.4", "rhcos4.18"}, ReplaceRepositories: true,
			Repositories: []Repository{
				{BaseURLs: []string{"https://example.com/$releasever/$basearch/os/"}, GPGKeys: []string{"file:///etc/pki/rpm-gpg/KEY", "/etc/pki/rpm-gpg/OLD"}},
				{BaseURLs: []string{"https://example.com/a/", "https://example.org/a/"}, Key: "site.asc"},
			},
		},
		{
			ID: "flatcar", Base: "example.com/debian:13", Archs: []string{"amd64"}, Kernels: []string{"6.6"}, Aliases: []string{"flatcar4081.2.0"}, Components: []string{"contrib"},
			Repositories: []Repository{{URIs: []string{"https://example.com/"}, Suites: []string{"s"}, Components: []string{"main"}, Key: "site.asc"}},
		},
	}
	assert.Same(t, want, m.Systems)
}
