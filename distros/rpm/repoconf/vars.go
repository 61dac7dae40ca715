package repoconf

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/driver-container/driver-container/distros/confdir"
	"github.com/driver-container/driver-container/distros/osrelease"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

// Vars maps the $variables of a configuration to their values: releasever, basearch, arch, and
// those of the site. Names are in lower case or as their files are called.
type Vars map[string]string

// varFolders are the folders in which sites and distributions define variables, one file each;
// later folders win.
var varFolders = []string{"etc/yum/vars", "etc/dnf/vars", "etc/zypp/vars.d"}

// releaseProvides are the names that the package with the system's release provides, the best
// first: those of dnf's list, then those that yum's main configuration and older systems use.
var releaseProvides = []string{
	"system-release(releasever)", "system-release", "distribution-release(releasever)", "distribution-release",
	"redhat-release", "suse-release", "centos-release",
}

// ReadVars returns the variables of a base: arch and basearch from rpm's name of its architecture,
// releasever as dnf, yum and zypper find it (from the installed package that provides
// system-release or a similar name; on SUSE's systems from etc/products.d/baseproduct; otherwise
// from os-release), and the files of etc/yum/vars, etc/dnf/vars and etc/zypp/vars.d, which win.
func ReadVars(root fs.FS, installed []rpmfile.Metadata, arch string) (Vars, error) {
	v := Vars{"arch": arch, "basearch": arch}
	for _, find := range []func() (string, error){
		func() (string, error) { return productVersion(root) },
		func() (string, error) { return installedRelease(installed), nil },
		func() (string, error) { return osReleaseField(root, "VERSION_ID") },
	} {
		release, err := find()
		if err != nil {
			return nil, fmt.Errorf("find the release of the base: %w", err)
		}
		if release != "" {
			v["releasever"] = release
			break
		}
	}
	for _, dir := range varFolders {
		err := confdir.Each(root, dir, "", func(name string, data []byte) error {
			if value, _, _ := strings.Cut(string(data), "\n"); validVar(path.Base(name)) {
				v[path.Base(name)] = strings.TrimSpace(value)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("read repository variables: %w", err)
		}
	}
	return v, nil
}

func installedRelease(installed []rpmfile.Metadata) string {
	for _, want := range releaseProvides {
		for _, p := range installed {
			for _, r := range p.Provides {
				if r.Name != want {
					continue
				}
				if r.Op == "=" && r.EVR.Version != "" && p.Name != want {
					return r.EVR.Version
				}
				return p.EVR.Version
			}
		}
	}
	return ""
}

// productVersion reads the version in etc/products.d/baseproduct, from which zypper takes its
// releasever.
func productVersion(root fs.FS) (string, error) {
	data, err := confdir.Optional(root, "etc/products.d/baseproduct")
	if err != nil || data == nil {
		return "", err
	}
	_, text, _ := strings.Cut(string(data), "<version>")
	version, _, _ := strings.Cut(text, "</version>")
	return strings.TrimSpace(version), nil
}

// osReleaseField returns a field of the root's os-release; "" if there is none.
func osReleaseField(root fs.FS, field string) (string, error) {
	fields, err := osrelease.Fields(root)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return fields[field], err
}

func validVar(name string) bool {
	return name != "" &&
		strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == ""
}

// lookup returns the value of a variable; releasever_major and releasever_minor are the parts of
// releasever before and after its first dot.
func (v Vars) lookup(name string) (string, bool) {
	if value, ok := v[name]; ok {
		return value, true
	}
	if release, ok := v["releasever"]; ok {
		major, minor, _ := strings.Cut(release, ".")
		switch name {
		case "releasever_major":
			return major, true
		case "releasever_minor":
			return minor, true
		}
	}
	return "", false
}

// Expand replaces $name, ${name}, ${name:-word if unset or empty} and ${name:+word if set}. Unknown
// variables stay as they are written, as with dnf; words are expanded too.
func (v Vars) Expand(text string) string { return v.expandDeep(text, 0) }

const (
	maxVarDepth = 8       // of words within words
	maxText     = 1 << 20 // bytes of an expanded text
)

func (v Vars) expandDeep(text string, depth int) string {
	var b strings.Builder
	for {
		i := strings.IndexByte(text, '$')
		if i < 0 || depth > maxVarDepth || b.Len() > maxText {
			b.WriteString(text)
			return b.String()
		}
		b.WriteString(text[:i])
		value, used := v.variable(text[i:], depth)
		b.WriteString(value)
		text = text[i+used:]
	}
}

// variable expands the variable at the beginning of text, which is a dollar, and returns its value
// and the length of text that it used.
func (v Vars) variable(text string, depth int) (value string, used int) {
	if !strings.HasPrefix(text, "${") {
		n := 1
		for n < len(text) && validVar(text[n:n+1]) {
			n++
		}
		if value, ok := v.lookup(text[1:n]); ok {
			return value, n
		}
		return text[:n], n
	}
	end := closing(text)
	if end < 0 {
		return text[:2], 2
	}
	name := text[2:end]
	word := ""
	op := ""
	if i := strings.IndexByte(name, ':'); i >= 0 && i+1 < len(name) {
		name, op, word = name[:i], name[i+1:i+2], name[i+2:]
	}
	value, ok := v.lookup(name)
	switch {
	case op == "-" && value == "", op == "+" && value != "":
		return v.expandDeep(word, depth+1), end + 1
	case op == "+":
		return "", end + 1
	case ok || op == "-":
		return value, end + 1
	}
	return text[:end+1], end + 1
}

// closing returns the index of the brace that closes a ${; -1 if there is none.
func closing(text string) int {
	open := 0
	for i := range len(text) {
		switch text[i] {
		case '{':
			open++
		case '}':
			if open--; open == 0 {
				return i
			}
		}
	}
	return -1
}
