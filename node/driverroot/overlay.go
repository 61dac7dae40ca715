package driverroot

import (
	"os"
	"path/filepath"
	"strings"
)

// maxLayers is the kernel's limit (OVL_MAX_STACK).
const maxLayers = 500

// overlayLowers returns the lower folders of an overlay from its options in mountinfo, the topmost first, as
// paths in the mount namespace of the runtime that mounted it, which is the host's. There are two forms:
// lowerdir=A:B, and lowerdir+=A for each folder (the mount calls of Linux 6.5). Options of another kind give no
// folders: names with escapes (\: and, in mountinfo, \040), relative names, which containerd uses for some
// fifty layers and more, and overlay attributes in the user namespace, which this package does not read.
func overlayLowers(options string) (lowers []string) {
	if strings.Contains(options, `\`) {
		return nil
	}
	for option := range strings.SplitSeq(options, ",") {
		key, value, _ := strings.Cut(option, "=")
		switch key {
		case "lowerdir":
			lowers = append(lowers, strings.Split(strings.ReplaceAll(value, "::", ":"), ":")...) // A::B: B has only data
		case "lowerdir+":
			lowers = append(lowers, value)
		case "userxattr":
			return nil
		}
	}
	for i, name := range lowers {
		if !filepath.IsAbs(name) || i >= maxLayers {
			return nil
		}
		lowers[i] = filepath.Clean(name)
	}
	return lowers
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
