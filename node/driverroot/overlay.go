package driverroot

import (
	"os"
	"path/filepath"
	"strings"
)

// maxLayers is what the kernel takes (OVL_MAX_STACK).
const maxLayers = 500

// overlayLowers are the lower folders that mountinfo's options of an overlay name, the topmost first, as whoever mounted it wrote
// them: on the host, in its mount namespace. There are three forms: lowerdir=A:B, lowerdir+=A for each (the mount calls of Linux 6.5),
// and, when the list was too long for the mount call, names that are relative to a folder that containerd was in: one of those above
// the upper folder, so each of them is tried. None are returned for options that cannot be understood without doubt: a folder's name
// with escapes in it (\: and, by mountinfo, \040), or attributes of overlay in the namespace of users, which are not looked at.
//
// upper is the writable layer, "" where there is none.
func overlayLowers(options string) (lowers [][]string, upper string) {
	if strings.Contains(options, `\`) || len(options) > 1<<16 {
		return nil, ""
	}
	var names []string
	for option := range strings.SplitSeq(options, ",") {
		key, value, _ := strings.Cut(option, "=")
		switch key {
		case "lowerdir":
			names = append(names, strings.Split(strings.ReplaceAll(value, "::", ":"), ":")...) // A::B: B has data only
		case "lowerdir+":
			names = append(names, value)
		case "upperdir":
			upper = value
		case "userxattr":
			return nil, ""
		}
	}
	for _, name := range names {
		if candidates := places(name, upper); len(candidates) > 0 {
			lowers = append(lowers, candidates)
		} else {
			return nil, ""
		}
	}
	if len(lowers) > maxLayers {
		return nil, ""
	}
	return lowers, upper
}

// places are the paths that a lower folder may have.
func places(name, upper string) []string {
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

// metacopy says whether an overlay may have files in one layer whose data are in another: by its options, which say what differs
// from the module's parameter.
func metacopy(options string) bool {
	for option := range strings.SplitSeq(options, ",") {
		if value, ok := strings.CutPrefix(option, "metacopy="); ok {
			return value != "off"
		}
	}
	text, err := os.ReadFile("/sys/module/overlay/parameters/metacopy")
	return err != nil || strings.TrimSpace(string(text)) != "N"
}
