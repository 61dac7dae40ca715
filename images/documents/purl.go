package documents

import (
	"cmp"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/images/packages"
)

// purl is a package URL: pkg:KIND/NAME@VERSION?QUALIFIERS, where NAME may begin with a namespace,
// and qualifiers that are "" are left out. Its form is that of the specification
// (https://github.com/package-url/purl-spec); the qualifiers are those that syft, grype and trivy
// read. packageurl-go, which the tests read them with, leaves "+" and the "&" of a qualifier as they
// are, which readers take for a space and for the next qualifier.
func purl(kind, name, version string, qualifiers map[string]string) string {
	text := "pkg:" + kind + "/" + percent(path.Clean(name), "/")
	if version != "" {
		text += "@" + percent(version, "")
	}
	var words []string
	for key, value := range qualifiers {
		if value != "" {
			words = append(words, key+"="+percent(value, "/,"))
		}
	}
	if len(words) > 0 {
		slices.Sort(words)
		text += "?" + strings.Join(words, "&")
	}
	return text
}

// percent escapes all bytes except those that a package URL has as they are, and those of also.
func percent(text, also string) string {
	text = strings.ReplaceAll(url.QueryEscape(text), "+", "%20")
	for _, plain := range ":" + also {
		text = strings.ReplaceAll(text, url.QueryEscape(string(plain)), string(plain))
	}
	return text
}

// packagePURL is the package URL of a package of the image's system. Grype finds the advisories of
// a package by its source, which upstream names where it is another one.
func (i *ImageContent) packagePURL(p packages.Installed) string {
	version := p.Version
	qualifiers := map[string]string{"arch": p.Arch, "distro": i.distro()}
	switch {
	case p.Kind == "rpm":
		if epoch, rest, ok := strings.Cut(p.Version, ":"); ok {
			version = rest
			qualifiers["epoch"] = epoch
		}
		if p.Source != "" {
			qualifiers["upstream"] = p.Source + "-" + p.SourceVersion + ".src.rpm"
		}
	case p.Source == "" || p.Source == p.Name && p.SourceVersion == p.Version:
	case cmp.Or(p.SourceVersion, p.Version) == p.Version:
		qualifiers["upstream"] = p.Source
	default:
		qualifiers["upstream"] = p.Source + "@" + p.SourceVersion
	}
	return purl(p.Kind, path.Join(distros.PackageVendor(i.systemID), p.Name), version, qualifiers)
}

// distro is "debian-12".
func (i *ImageContent) distro() string {
	return strings.TrimSuffix(i.systemID+"-"+i.systemVersion, "-")
}

// imagePURL is the package URL of an image of a registry. name may be a whole reference.
func imagePURL(name, digest string, qualifiers map[string]string) string {
	return purl("oci", strings.ToLower(path.Base(name)), digest, qualifiers)
}

// archivePURL is the package URL of what comes in an archive.
func archivePURL(name, version, address, sha256 string) string {
	return purl(
		"generic",
		name,
		version,
		map[string]string{"checksum": "sha256:" + sha256, "download_url": address},
	)
}
