package matrix

import (
	"errors"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"

	goversion "github.com/hashicorp/go-version"

	"github.com/driver-container/driver-container/images/imagename"
)

// The forms of values. They are narrow on purpose: ids and versions become parts of tags, paths and package
// requests.
var (
	sha256Shape    = regexp.MustCompile(`^[0-9a-f]{64}$`)
	versionShape   = regexp.MustCompile(`^[1-9][0-9]{2,3}(\.[0-9]{1,4}){1,2}$`)
	cudaShape      = regexp.MustCompile(`^[1-9][0-9]?\.[0-9]{1,2}$`)
	kernelShape    = regexp.MustCompile(`^[0-9]{1,3}(\.[0-9]{1,4}){1,2}$`)
	packageShape   = regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]{1,127}$`) // Debian policy 5.6.1
	componentShape = regexp.MustCompile(`^[a-z0-9][a-z0-9./-]{0,63}$`)
	debianShape    = regexp.MustCompile(`^[A-Za-z0-9.+~:-]{1,128}$`) // Debian policy 5.6.12
	suiteShape     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9./_-]{0,127}$`)
	// The bound is the same as in package driverinfo.
	aliasShape   = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]*(-[a-z0-9]+)*[0-9]+(\.[0-9]+)*$`)
	patternShape = regexp.MustCompile(`^[0-9]+(\.[0-9]+)*(\.\*)?$`)
)

// The words that some keys accept.
var (
	knownArchs    = []string{"amd64", "arm64"}
	knownFlavours = []string{Proprietary, Open}
)

// shape returns a check against a pattern.
func shape(re *regexp.Regexp, want string) check {
	return func(s string) string {
		if re.MatchString(s) {
			return ""
		}
		return want
	}
}

// oneOf returns a check that accepts some words and suggests one of them.
func oneOf(words []string) check {
	return func(s string) string {
		if slices.Contains(words, s) {
			return ""
		}
		if near := suggest(s, words); near != "" {
			return "is not known" + near
		}
		return "is not known: it is one of " + strings.Join(words, ", ")
	}
}

// driverVersion accepts the forms that NVIDIA uses: "418.87.01", "595.84".
func driverVersion(s string) string {
	if _, err := goversion.NewVersion(s); err != nil || !versionShape.MatchString(s) {
		return "is no driver version, such as 418.87.01"
	}
	return ""
}

// driverRange accepts an end of a range of drivers.
func driverRange(s string) string {
	return shape(driverLimit, "is no driver version and no branch, such as 535")(s)
}

func kernelSeries(s string) string {
	return shape(kernelShape, "is no kernel series, such as 5.15")(s)
}

func sha256Text(s string) string {
	if strings.Trim(s, "0") == "" && s != "" {
		return "is a placeholder: give the archive's, which driver-build matrix add-driver finds"
	}
	return shape(sha256Shape, "is no sha256: 64 hex digits in lower case")(s)
}

// webURL accepts http and https with a host. User names and passwords must not be in a file that is in git.
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

// keyPath accepts the path of a key in the base, as .repo files name it. It refuses web addresses, because
// nothing proves that a key from the web is authentic.
func keyPath(s string) string {
	file := strings.TrimPrefix(s, "file://")
	if !path.IsAbs(file) || path.Clean(file) != file || len(file) > 256 {
		return "is no absolute path in the base, such as /etc/pki/rpm-gpg/RPM-GPG-KEY-CentOS-7"
	}
	return ""
}

// archiveURL accepts the URL of a driver's archive in one of its two forms. Only a vGPU guest driver may be a
// local file: everything else can be downloaded by everybody who has the matrix.
func archiveURL(s string) string {
	if local, ok := strings.CutPrefix(s, "file://"); ok && guestArchive.MatchString(local) {
		if !path.IsAbs(local) || path.Clean(local) != local || strings.ContainsAny(local, "%?# \t") || len(local) > 4096 {
			return "is no absolute path after file://, without blanks, % and .."
		}
		return ""
	}
	if wrong := webURL(s); wrong != "" {
		return wrong
	}
	u, err := url.Parse(s)
	if err != nil || !strings.HasSuffix(u.Path, ".run") && !strings.HasSuffix(u.Path, redistEnding) {
		return "must have a path that ends in .run or " + redistEnding
	}
	return ""
}

// baseReference accepts an image reference with a tag or a digest: without one it would mean "latest".
func baseReference(s string) string {
	if wrong := nameFault(imagename.CheckImage(s)); wrong != "" {
		return wrong
	}
	if !strings.Contains(s, "@") && strings.LastIndexByte(s, ':') < strings.LastIndexByte(s, '/')+1 {
		return "names neither a tag nor a digest"
	}
	return ""
}

func repositoryName(s string) string { return nameFault(imagename.CheckRepository(s)) }

func registryName(s string) string { return nameFault(imagename.CheckRegistry(s)) }

// nameFault returns the text of an error of package imagename without the name itself.
func nameFault(err error) string {
	if e, ok := errors.AsType[*imagename.Error](err); ok {
		return e.Fault
	}
	return ""
}

// major returns the first field of a version that driverVersion accepted: 418.
func major(v string) int {
	parsed, err := goversion.NewVersion(v)
	if err != nil {
		return 0
	}
	return parsed.Segments()[0]
}
