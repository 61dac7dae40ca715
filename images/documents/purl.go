package documents

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/images/packages"
)

// purl is a package URL: pkg:KIND/NAME@VERSION?QUALIFIERS. Its form is that of the specification
// (https://github.com/package-url/purl-spec); the qualifiers are those that syft, grype and trivy read.
type purl struct {
	kind, namespace, name, version string
	qualifiers                     map[string]string // those that are "" are left out
	subpath                        string
}

func (p purl) String() string {
	var b strings.Builder
	b.WriteString("pkg:" + p.kind)
	for part := range strings.SplitSeq(path.Join(p.namespace, p.name), "/") {
		b.WriteString("/" + percent(part, ""))
	}
	if p.version != "" {
		b.WriteString("@" + percent(p.version, ""))
	}
	var words []string
	for name, value := range p.qualifiers {
		if value != "" {
			words = append(words, name+"="+percent(value, "/,"))
		}
	}
	slices.Sort(words)
	if len(words) > 0 {
		b.WriteString("?" + strings.Join(words, "&"))
	}
	if p.subpath != "" {
		b.WriteString("#" + percent(p.subpath, "/"))
	}
	return b.String()
}

// percent escapes all bytes except those that a package URL has as they are, and those of also.
func percent(s, also string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_~:"
	var b strings.Builder
	for n := range len(s) {
		if c := s[n]; strings.IndexByte(plain, c) >= 0 || strings.IndexByte(also, c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// packagePURL is the package URL of a package of the image's system. Grype finds the advisories of a package
// by its source, which upstream names where it is another one.
func (i *Image) packagePURL(p packages.Installed) string {
	u := purl{
		kind: p.Kind, namespace: distros.PackageVendor(i.SystemID), name: p.Name, version: p.Version,
		qualifiers: map[string]string{"arch": p.Arch, "distro": i.distro()},
	}
	switch {
	case p.Kind == "rpm":
		if epoch, version, ok := strings.Cut(p.Version, ":"); ok {
			u.version, u.qualifiers["epoch"] = version, epoch
		}
		if p.Source != "" {
			u.qualifiers["upstream"] = p.Source + "-" + p.SourceVersion + ".src.rpm"
		}
	case p.Source == "" || p.Source == p.Name && p.SourceVersion == p.Version:
	case cmp.Or(p.SourceVersion, p.Version) == p.Version:
		u.qualifiers["upstream"] = p.Source
	default:
		u.qualifiers["upstream"] = p.Source + "@" + p.SourceVersion
	}
	return u.String()
}

// distro is "debian-12".
func (i *Image) distro() string {
	if i.SystemVersion == "" {
		return i.SystemID
	}
	return i.SystemID + "-" + i.SystemVersion
}

// imagePURL is the package URL of an image of a registry. name may be a whole reference.
func imagePURL(name, digest string, qualifiers map[string]string) string {
	return purl{kind: "oci", name: strings.ToLower(path.Base(name)), version: digest, qualifiers: qualifiers}.String()
}

// goPURL is the package URL of a Go module, which is in lower case.
func goPURL(module, version, subpath string) string {
	if version == "(devel)" {
		version = ""
	}
	return purl{kind: "golang", name: strings.ToLower(module), version: version, subpath: subpath}.String()
}

// cutModule returns the folder of a package in its module.
func cutModule(pkg, module string) (dir string, ok bool) {
	if pkg == module {
		return "", module != ""
	}
	dir, ok = strings.CutPrefix(pkg, module+"/")
	return dir, ok && module != ""
}

// goVersion is "1.26.8" of "go1.26.8 X:experiment"; "" for a version that was not released.
func goVersion(text string) string {
	version, ok := strings.CutPrefix(text, "go")
	version, _, _ = strings.Cut(version, " ")
	if !ok {
		return ""
	}
	return version
}
