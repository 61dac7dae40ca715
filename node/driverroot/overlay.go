package driverroot

import (
	"os"
	"path/filepath"
	"strings"
)

// maxLayers is the kernel's limit (OVL_MAX_STACK).
const maxLayers = 500

// overlayLowers returns the lower folders of an overlay from its options in mountinfo, the topmost first, as
// paths in the mount namespace of the runtime that mounted it, which is the host's. There are three forms:
// lowerdir=A:B; lowerdir+=A for each folder (the mount calls of Linux 6.5); and, when the list was too long
// for the mount call, names relative to a working directory of containerd. That directory is a parent of the
// upper folder, so each of its parents is tried. Options that are ambiguous give no folders: a folder's name
// with escapes (\: and, in mountinfo, \040), or overlay attributes in the user namespace, which this package
// does not read.
func overlayLowers(options string) (lowers [][]string) {
	if strings.Contains(options, `\`) || len(options) > 1<<16 {
		return nil
	}
	var names []string
	upper := "" // the writable layer
	for option := range strings.SplitSeq(options, ",") {
		key, value, _ := strings.Cut(option, "=")
		switch key {
		case "lowerdir":
			names = append(names, strings.Split(strings.ReplaceAll(value, "::", ":"), ":")...) // A::B: B has only data
		case "lowerdir+":
			names = append(names, value)
		case "upperdir":
			upper = value
		case "userxattr":
			return nil
		}
	}
	for _, name := range names {
		if candidates := candidatePaths(name, upper); len(candidates) > 0 {
			lowers = append(lowers, candidates)
		} else {
			return nil
		}
	}
	if len(lowers) > maxLayers {
		return nil
	}
	return lowers
}

// candidatePaths returns the paths that a lower folder may have.
func candidatePaths(name, upper string) []string {
	switch {
	case filepath.IsAbs(name):
		return []string{filepath.Clean(name)}
	case !filepath.IsAbs(upper) || !filepath.IsLocal(name):
		return nil
	}
	var found []string
	for dir := filepath.Dir(filepath.Clean(upper)); dir != "/"; dir = filepath.Dir(dir) {
		found = append(found, filepath.Join(dir, name))
	}
	return found
}

// metacopy says whether an overlay may have files in one layer with their data in another one. Its options
// say so when they differ from the module's parameter.
func metacopy(options string) bool {
	for option := range strings.SplitSeq(options, ",") {
		if value, ok := strings.CutPrefix(option, "metacopy="); ok {
			return value != "off"
		}
	}
	text, err := os.ReadFile("/sys/module/overlay/parameters/metacopy")
	return err != nil || strings.TrimSpace(string(text)) != "N"
}
