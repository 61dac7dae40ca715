package distros

// Package is a package of a system's repositories, pinned by the digest of its file. Plans and locks have it
// for every kind of package.
type Package struct {
	Name    string `json:"name"`
	Version string `json:"version"` // Debian's, or rpm's [epoch:]version-release
	Arch    string `json:"arch"`    // the packages' own name: "amd64" or "all", "x86_64" or "noarch"
	URL     string `json:"url"`
	SHA256  string `json:"sha256,omitempty"` // hex
	// SHA512 is the digest where the index of the repository has no SHA256, like some of SUSE's; hex. One of the
	// two is set.
	SHA512   string `json:"sha512,omitempty"`
	Size     int64  `json:"size"`               // bytes
	Replaces string `json:"replaces,omitempty"` // the version in the base
	// Keys are the fingerprints, in capital hex, of keys of which one must have signed the package itself,
	// because no signature covers the index that names it: so it is with RHEL and its derivatives. Empty: the
	// digest comes from a signed index.
	Keys []string `json:"keys,omitempty"`
}

// Digest returns the pin itself, which is the same in every place that has the package.
func (p Package) Digest() string {
	if p.SHA256 != "" {
		return p.SHA256
	}
	return "sha512:" + p.SHA512
}
