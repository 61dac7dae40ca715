package distros

import (
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/driver-container/driver-container/distros/failure"
)

// Package is a package of a system's repositories, pinned by the digest of its file. Plans and
// locks have it for every kind of package.
type Package struct {
	Name    string `json:"name"`
	Version string `json:"version"` // Debian's, or rpm's [epoch:]version-release
	// the packages' own name: "amd64" or "all", "x86_64" or "noarch"
	Arch   string `json:"arch"`
	URL    string `json:"url"`
	SHA256 string `json:"sha256,omitempty"` // hex
	// SHA512 is the digest where the index of the repository has no SHA256, like some of SUSE's;
	// hex. One of the two is set.
	SHA512   string `json:"sha512,omitempty"`
	Size     int64  `json:"size"`               // bytes
	Replaces string `json:"replaces,omitempty"` // the version in the base
	// Keys are the fingerprints, in capital hex, of keys of which one must have signed the package
	// itself, because no signature covers the index that names it: so it is with RHEL and its
	// derivatives. Empty: the digest comes from a signed index.
	Keys []string `json:"keys,omitempty"`
}

// Digest returns the pin itself, which is the same in every place that has the package.
func (p Package) Digest() string {
	if p.SHA256 != "" {
		return p.SHA256
	}
	return "sha512:" + p.SHA512
}

// CleanPath returns a path below a repository without what a server would drop: slashes at the
// beginning (Nexus writes one), "//" and "./". ok is false for a path with "..", or with characters
// that no index needs.
func CleanPath(name string) (clean string, ok bool) {
	rooted := "/" + name
	if strings.Contains(rooted+"/", "/../") || strings.ContainsAny(name, "\\\x00\n\r") {
		return "", false
	}
	clean = strings.TrimPrefix(path.Clean(rooted), "/")
	return clean, clean != "" && fs.ValidPath(clean)
}

// PackageVendor returns the namespace of a system's packages in package URLs (pkg:rpm/redhat/bash),
// by the ID of its os-release. It is the ID, except where scanners and their databases use another
// word.
func PackageVendor(id string) string {
	switch {
	case id == "rhel":
		return "redhat"
	case strings.HasPrefix(id, "opensuse"): // opensuse-leap
		return "opensuse"
	}
	return id
}

// UnresolvableError says which request cannot be met and why.
type UnresolvableError struct {
	// from the requested package to the one with the problem, as "name version"; may be empty
	Chain    []string
	Relation string   // what the last of the chain needs, or the request itself
	Reason   string   // why it is not available
	Versions []string // the existing versions, as "version (where)"; may be empty
}

func (e *UnresolvableError) Error() string {
	var b strings.Builder
	b.WriteString("cannot resolve packages: ")
	if n := len(e.Chain); n > 0 {
		fmt.Fprintf(&b, "%s needs %s, ", e.Chain[n-1], e.Relation)
	} else {
		fmt.Fprintf(&b, "%s was asked for, ", e.Relation)
	}
	b.WriteString(e.Reason)
	if len(e.Versions) > 0 {
		fmt.Fprintf(&b, "; there is %s", strings.Join(e.Versions, ", "))
	}
	if len(e.Chain) > 1 {
		fmt.Fprintf(&b, " (asked for by %s)", strings.Join(e.Chain, " -> "))
	}
	return b.String()
}

// FailureKind says what the command makes of it.
func (*UnresolvableError) FailureKind() failure.Kind { return failure.Step }
