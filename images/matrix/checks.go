package matrix

import (
	"cmp"
	"errors"
	"io/fs"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images/imagename"
)

// The words that some keys accept.
var (
	knownArchs    = []string{"amd64", "arm64"}
	knownFlavours = []string{Proprietary, Open}
)

// formats are the checks of texts by the names in the tags of the types. A check returns the
// mistake, "" for none.
var formats = map[string]func(string) string{
	"":         func(string) string { return "" },
	"advisory": oneOf(driverinfo.EndOfLife, driverinfo.KnownBad),
	"alias": shape(
		`^[A-Za-z][A-Za-z0-9]*(-[a-z0-9]+)*[0-9]+(\.[0-9]+)*$`,
		"is no name of a system as it stands in tags, such as almalinux9.4",
	),
	"arch":       oneOf(knownArchs...),
	"archive":    archiveURL,
	"base":       baseReference,
	"companion":  oneOf(driverinfo.Companions()...),
	"component":  shape(`^[a-z0-9][a-z0-9./-]{0,63}$`, "is no name of a repository component"),
	"components": oneOf(ComponentNames...),
	"cuda":       shape(`^[1-9][0-9]?\.[0-9]{1,2}$`, "is no version of CUDA, such as 12.8"),
	"device": shape(
		`^[0-9a-f]{4}$`,
		"is no PCI number of a GPU: four hex digits, such as 2941",
	),
	"digest": sha256Shape,
	// Debian policy 5.6.12
	"debian":  shape(`^[A-Za-z0-9.+~:-]{1,128}$`, "is no Debian version"),
	"flavour": oneOf(knownFlavours...),
	"instance": shape(
		`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}\*?$`,
		"is no type of a cloud's machines, such as p6e-gb200.36xlarge or p6e-*",
	),
	"kernel": shape(`^[0-9]{1,3}(\.[0-9]{1,4}){1,2}$`, "is no kernel series, such as 5.15"),
	"key":    keyName,
	"licence": shape(
		`^\(?[A-Za-z0-9.+-]+( (AND|OR|WITH) \(?[A-Za-z0-9.+-]+\)?)*$`,
		"is no SPDX expression, such as MIT or GPL-2.0-only",
	),
	"month": shape(`^20[0-9]{2}-(0[1-9]|1[0-2])$`, "is no month, such as 2026-06"),
	// Debian policy 5.6.1
	"package":   shape(`^[a-z0-9][a-z0-9+.-]{1,127}$`, "is no package name"),
	"patch":     patchFile,
	"patch-url": func(s string) string { return cmp.Or(webURL(s), ending(s, ".patch", ".diff")) },
	"path":      keyPath,
	"pattern": shape(
		`^[0-9]+(\.[0-9]+)*(\.\*)?$`,
		"is neither a driver version nor a pattern such as 570.*",
	),
	"profile": oneOf(Profiles()...),
	"range": shape(
		`^[1-9][0-9]{2,3}(\.[0-9]{1,4}){0,2}$`,
		"is no driver version and no branch, such as 535",
	),
	"registry":   func(s string) string { return nameFault(imagename.CheckRegistry(s)) },
	"repository": func(s string) string { return nameFault(imagename.CheckRepository(s)) },
	"sha256":     sha256Text,
	"sources":    oneOf(SourceArchive, SourcePackages),
	"source-url": func(s string) string { return cmp.Or(webURL(s), ending(s, ".tar.gz", ".tar.xz")) },
	"suite":      shape(`^[A-Za-z0-9][A-Za-z0-9./_-]{0,127}$`, "is no suite"),
	"system":     knownSystem,
	"url":        webURL,
	"version": shape(
		`^[1-9][0-9]{2,3}(\.[0-9]{1,4}){1,2}$`,
		"is no driver version, such as 418.87.01",
	),
	"version-of": shape(`^[0-9]{1,4}(\.[0-9]{1,4}){1,3}$`, "is no version, such as 2.13.5"),
	"vgpu":       oneOf(driverinfo.VGPULicences()...),
}

// HasForm reports whether a text has one of the forms of values: "version" of a driver,
// "version-of" something else, "cuda", "digest".
func HasForm(form, text string) bool { return formats[form](text) == "" }

// foreign are the forms of keys of types of driverinfo by their names in JSON. The others have that
// of the key above: kernels or drivers.
var foreign = map[string]string{
	"reason": "", "flavours": "flavour", "id": "", "kind": "advisory", "until": "", "affects": "", "fixed": "version", "source": "",
}

// shape returns a check against a pattern. The patterns are narrow on purpose: ids and versions
// become parts of tags, paths and package requests.
func shape(pattern, want string) func(string) string {
	re := regexp.MustCompile(pattern)
	return func(s string) string {
		if re.MatchString(s) {
			return ""
		}
		return want
	}
}

// oneOf returns a check that accepts some words and suggests one of them.
func oneOf(words ...string) func(string) string {
	return func(s string) string {
		if slices.Contains(words, s) {
			return ""
		}
		return "is not known" + cmp.Or(suggest(s, words), oneOfThem(words))
	}
}

func ending(s string, endings ...string) string {
	if slices.ContainsFunc(endings, func(e string) bool { return strings.HasSuffix(s, e) }) {
		return ""
	}
	return "must have a path that ends in " + strings.Join(endings, " or ")
}

var knownSystems = sync.OnceValue(
	func() []string { return names(distros.All(), distros.Distro.ID) },
)

// knownSystem accepts the systems of package distros. A system that is used needs no row: drivers
// and companions name all systems that have their packages, and a matrix for one of them needs no
// edit in each.
func knownSystem(s string) string {
	known := knownSystems()
	if slices.Contains(known, s) {
		return ""
	}
	return "is no known system" + suggest(s, known)
}

func sha256Text(s string) string {
	if strings.Trim(s, "0") == "" && s != "" {
		return "is a placeholder: give the archive's, which driver-build matrix add-driver finds"
	}
	return sha256Shape(s)
}

var sha256Shape = shape(`^[0-9a-f]{64}$`, "is no sha256: 64 hex digits in lower case")

// webURL accepts http and https with a host. User names and passwords must not be in a file that is
// in git.
func webURL(s string) string {
	u, err := url.Parse(s)
	switch {
	case strings.IndexFunc(s, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }) >= 0:
		return "has a blank or an unprintable character: write a blank as %20"
	case err != nil:
		return "is no URL"
	case u.Scheme != "http" && u.Scheme != "https":
		return "must begin with https:// or http://"
	case u.Hostname() == "":
		return "names no host"
	case u.User != nil:
		return "must hold no user name or password"
	case u.RawQuery != "" || u.Fragment != "":
		return "must have no query and no fragment"
	}
	return ""
}

// keyName accepts an armoured key, or the name of a file with one. It refuses web addresses,
// because nothing proves that a key from the web is authentic.
func keyName(s string) string {
	if strings.Contains(s, "://") && !strings.Contains(s, armour) {
		return "is a web address, and nothing proves that a key from there is authentic: give a file beside the matrix, or the key itself"
	}
	return ""
}

// patchFile accepts the path of a file beside the matrix, or in a folder there.
func patchFile(s string) string {
	if !fs.ValidPath(s) || strings.Contains(s, `\`) {
		return "is no path beside the matrix, such as patches/name.patch"
	}
	return ending(s, ".patch", ".diff")
}

// keyPath accepts the path of a key in the base, as .repo files name it. It refuses web addresses,
// because nothing proves that a key from the web is authentic.
func keyPath(s string) string {
	file := strings.TrimPrefix(s, "file://")
	if !path.IsAbs(file) || path.Clean(file) != file || len(file) > 256 {
		return "is no absolute path in the base, such as /etc/pki/rpm-gpg/RPM-GPG-KEY-CentOS-7"
	}
	return ""
}

// archiveURL accepts the URL of a driver's archive in one of its two forms. Only a vGPU guest
// driver may be a local file: everything else can be downloaded by everybody who has the matrix.
func archiveURL(s string) string {
	if local, ok := strings.CutPrefix(s, "file://"); ok && guestArchive.MatchString(local) {
		if !path.IsAbs(local) || path.Clean(local) != local ||
			strings.ContainsAny(local, "%?# \t") ||
			len(local) > 4096 {
			return "is no absolute path after file://, without blanks, % and .."
		}
		return ""
	}
	if wrong := webURL(s); wrong != "" {
		return wrong
	}
	return ending(s, ".run", redistEnding)
}

// baseReference accepts an image reference with a tag or a digest: without one it would mean
// "latest".
func baseReference(s string) string {
	if wrong := nameFault(imagename.CheckImage(s)); wrong != "" {
		return wrong
	}
	if _, tag, digest := imagename.Split(s); tag == "" && digest == "" {
		return "names neither a tag nor a digest"
	}
	return ""
}

// nameFault returns the text of an error of package imagename without the name itself.
func nameFault(err error) string {
	if e, ok := errors.AsType[*imagename.Error](err); ok {
		return e.Fault
	}
	return ""
}
