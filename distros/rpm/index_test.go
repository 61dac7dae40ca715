package rpm

import (
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/distros/rpm/repoconf"
)

func TestObsoleting(t *testing.T) {
	t.Parallel()
	b := newBuilder(&repo{source: repoconf.Source{ID: "x"}}, "https://example.com", "aarch64")
	for _, p := range []struct {
		name, arch string
		size       int64 // 0: the package is hidden
		obsoletes  []string
	}{
		{"b", "aarch64", 1, []string{"old", "older", "old"}}, {"a", "noarch", 1, []string{"old"}}, {"c", "aarch64", 0, []string{"old"}}, {"a", "noarch", 1, nil},
	} {
		r := Record{Name: p.name, Arch: p.arch, Version: "1", Release: "1", ChecksumType: "sha256", Checksum: strings.Repeat("0", 64), Location: "a.rpm", Size: p.size}
		for _, o := range p.obsoletes {
			r.Obsoletes = append(r.Obsoletes, RecordRelation{Name: o})
		}
		require.NoError(t, b.record(r))
	}
	x := &Index{arch: "aarch64", entries: b.entries}
	x.build()
	var got []string
	for _, p := range x.Obsoleting("old") {
		got = append(got, p.Name)
	}
	if !slices.Equal(got, []string{"a", "b"}) || x.Len() != 2 {
		t.Errorf("Obsoleting(old) = %q of %d packages; want a and b of 2", got, x.Len())
	}
}
