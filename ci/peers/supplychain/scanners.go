package supplychain

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/package-url/packageurl-go"

	"github.com/driver-container/driver-container/ci/testkit/require"
)

// TrivyReads reads an SBOM as "trivy sbom" does. It returns the system, such as "debian 12", without
// which trivy looks for no vulnerabilities of packages, and the package URLs that it looks at, each
// followed by "source NAME": advisories of Debian and Ubuntu are about sources.
func TrivyReads(t testing.TB, file string) (system string, purls []string) {
	t.Helper()
	out, err := run(t, Program(t, "trivy"), file)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimRight(out, "\n"), "\n")
	return lines[0], lines[1:]
}

// SyftScans returns the package URLs of what syft finds in an OCI layout with one image.
func SyftScans(t testing.TB, layout string) []string {
	t.Helper()
	return syft(t, "scan", "oci-dir:"+layout)
}

// SyftReads returns the package URLs of an SBOM as syft reads it.
func SyftReads(t testing.TB, file string) []string {
	t.Helper()
	return syft(t, "convert", file)
}

func syft(t testing.TB, args ...string) (purls []string) {
	t.Helper()
	out, err := run(t, Program(t, "syft"), append(args, "-q", "-o", "syft-json")...)
	require.NoError(t, err)
	var found struct {
		Artifacts []struct{ PURL string } `json:"artifacts"`
	}
	require.NoError(t, json.Unmarshal([]byte(out), &found))
	for _, a := range found.Artifacts {
		purls = append(purls, a.PURL)
	}
	return purls
}

// Installed are the packages of a system among package URLs, "deb kmod 30+20221128-1 amd64", sorted.
// A key, which rpm lists as a package, is left out.
func Installed(t testing.TB, purls []string) (all []string) {
	t.Helper()
	for _, text := range purls {
		if !strings.HasPrefix(text, "pkg:deb/") && !strings.HasPrefix(text, "pkg:rpm/") {
			continue
		}
		p := require.Value(packageurl.FromString(text))(t)
		if p.Name == "gpg-pubkey" {
			continue
		}
		about := p.Qualifiers.Map()
		words := []string{p.Type, p.Name, about["epoch"], p.Version, about["arch"]}
		all = append(all, strings.Join(words, " "))
	}
	slices.Sort(all)
	return all
}
