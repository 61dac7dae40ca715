package rpm

import (
	"errors"
	"strings"
	"testing"
)

func TestJoin(t *testing.T) {
	t.Parallel()
	const guid = "https://cdn.example.com/2/core/2.0/x86_64/3cea6107"
	for _, c := range []struct{ repository, base, href, want string }{
		{guid, "", "Packages/a b+c~1.rpm", guid + "/Packages/a%20b+c~1.rpm"},
		{guid, "", "./a.rpm", guid + "/a.rpm"},
		{guid, "https://other.example.com/x/", "a.rpm", "https://other.example.com/x/a.rpm"},
		// as Amazon's repositories have it: five steps lead to the root of the host
		{guid, "", "../../../../../blobstore/13b7/kernel-devel.rpm", "https://cdn.example.com/blobstore/13b7/kernel-devel.rpm"},
		{guid, "", "../a.rpm", "https://cdn.example.com/2/core/2.0/x86_64/a.rpm"},
		{guid, "", "../../../../../../a.rpm", ""},
		{guid, "", "../a/../b.rpm", ""},
		{guid, "", "a/../../b.rpm", ""},
		{guid, "", "..", ""},
		{guid, "", "../", ""},
		{guid, "", "%2e%2e/a.rpm", ""},
		{guid, "", "/a.rpm", ""},
		{"https://cdn.example.com", "", "../a.rpm", ""},
		{"file:///srv/repository", "", "../a.rpm", ""},
		{guid, "ftp://example.com/", "a.rpm", ""},
	} {
		got, err := join(c.repository, c.base, c.href)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("join(%s, %s, %s) = %q, %v; want %q", c.repository, c.base, c.href, got, err, c.want)
		}
	}
}

// TestTooLarge: what a list says of sizes is bounded before anything is downloaded.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	r := &repo{}
	l := list{href: "a", sum: sum{sha256: strings.Repeat("0", 64), size: maxPrimary + 1}}
	err := r.read(t.Context(), "primary", l, maxPrimary, nil)
	if !errors.Is(err, ErrIndex) || !strings.Contains(err.Error(), "allowed") {
		t.Error(err)
	}
	b := newBuilder(&repo{source: Source{ID: "x"}}, "https://example.com/os", "x86_64")
	record := Record{
		Name: "a", Arch: "noarch", Version: "1", Release: "1", ChecksumType: "sha256", Checksum: strings.Repeat("0", 64), Location: "a.rpm", Size: maxPackage + 1,
	}
	if err := b.record(record); err != nil || !strings.Contains(b.entries[0].hidden, "allowed") {
		t.Errorf("%v: %+v", err, b.entries)
	}
}
