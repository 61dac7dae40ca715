package distros

import "strings"

// PackageVendor returns the namespace of a system's packages in package URLs (pkg:rpm/redhat/bash), by the ID
// of its os-release. It is the ID, except where scanners and their databases use another word.
func PackageVendor(id string) string {
	switch {
	case id == "rhel":
		return "redhat"
	case strings.HasPrefix(id, "opensuse"): // opensuse-leap
		return "opensuse"
	}
	return id
}
