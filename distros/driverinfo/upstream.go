package driverinfo

import (
	"strings"

	"github.com/driver-container/driver-container/distros/lazyregexp"
)

// Fixed fields of what a kernel says of itself.
var (
	upstreamShape = lazyregexp.New(`^[0-9]{1,3}\.[0-9]{1,4}\.[1-9][0-9]{0,3}`)
	debianBuild   = lazyregexp.New(` Debian ([0-9]+\.[0-9]+\.[0-9]+)[-~+]`)
)

// UpstreamRelease returns the release of kernel.org that a kernel was made from, "6.1.192", by its
// release (as in uname -r) and the version of its package; "" if neither says it. Debian 12 and
// Ubuntu number their kernels 6.1.0-56 and 6.8.0-50: only Debian's package has the release in its
// version ("6.1.192-2").
func UpstreamRelease(release, packageVersion string) string {
	for _, text := range []string{release, packageVersion} {
		found := upstreamShape().FindString(text)
		if series := numbers(release); found != "" && len(series) > 1 &&
			compare(series[:2], numbers(found)) == 0 {
			return found
		}
	}
	return ""
}

// RunningRelease is UpstreamRelease for a running kernel: version is the content of /proc/version,
// signature that of /proc/version_signature, which Ubuntu's kernels have ("Ubuntu
// 6.8.0-50.51-generic 6.8.12").
func RunningRelease(release, version, signature string) string {
	if m := debianBuild().FindStringSubmatch(version); m != nil {
		return UpstreamRelease(release, m[1])
	}
	if fields := strings.Fields(signature); len(fields) == 3 {
		return UpstreamRelease(release, fields[2])
	}
	return UpstreamRelease(release, "")
}
