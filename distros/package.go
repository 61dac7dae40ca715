package distros

// Package is a package of a system's repositories, pinned by the digest of its file. It is what plans and locks hold, whatever
// the kind of the packages.
type Package struct {
	Name    string `json:"name"`
	Version string `json:"version"` // Debian's, or rpm's [epoch:]version-release
	Arch    string `json:"arch"`    // as the packages call it: "amd64" or "all", "x86_64" or "noarch"
	URL     string `json:"url"`
	SHA256  string `json:"sha256,omitempty"` // hex
	// SHA512 is the digest where the index of the repository has no SHA256, as some of SUSE's; hex. One of the two is there.
	SHA512   string `json:"sha512,omitempty"`
	Size     int64  `json:"size"`               // bytes
	Replaces string `json:"replaces,omitempty"` // the version that the base has
	// Keys are fingerprints in capital hex of the keys one of which must have signed the package itself, because nothing signs the
	// index that names it: so it is with RHEL and all that follow it. Empty: the digest comes from a signed index.
	Keys []string `json:"keys,omitempty"`
}

// Digest is the pin itself, the same wherever the package was found.
func (p Package) Digest() string {
	if p.SHA256 != "" {
		return p.SHA256
	}
	return "sha512:" + p.SHA512
}
