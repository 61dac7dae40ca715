package rpm

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/rpm/repoconf"
)

// listed is a package element of a primary.xml; packages without a size are hidden.
func listed(name, arch string, size int64, obsoletes ...string) string {
	text := fmt.Sprintf(`<package><name>%s</name><arch>%s</arch><version ver="1" rel="1"/><checksum type="sha256">%064d</checksum>`+
		`<location href="a.rpm"/><size package="%d"/><format><obsoletes>`, name, arch, 0, size)
	if len(obsoletes) > 0 {
		text += `<entry name="` + strings.Join(obsoletes, `"/><entry name="`) + `"/>`
	}
	return text + "</obsoletes></format></package>"
}

func readListed(t *testing.T, packages ...string) *Index {
	t.Helper()
	b := newBuilder(&repo{source: repoconf.Source{ID: "x"}}, "https://example.com", "aarch64")
	require.NoError(t, b.readPrimary(strings.NewReader("<metadata>"+strings.Join(packages, "")+"</metadata>")))
	x := &Index{arch: "aarch64", entries: b.entries}
	x.build()
	return x
}

func TestObsoleting(t *testing.T) {
	t.Parallel()
	x := readListed(t, listed("b", "aarch64", 1, "old", "older", "old"), listed("a", "noarch", 1, "old"), listed("c", "aarch64", 0, "old"), listed("a", "noarch", 1))
	var got []string
	for _, p := range x.Obsoleting("old") {
		got = append(got, p.Name)
	}
	if !slices.Equal(got, []string{"a", "b"}) || x.Len() != 2 {
		t.Errorf("Obsoleting(old) = %q of %d packages; want a and b of 2", got, x.Len())
	}
}
