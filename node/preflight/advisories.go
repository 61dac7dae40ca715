package preflight

import (
	"strings"
)

// checkAdvisories says what was known of the driver when its image was built, as it is today. It
// never prevents a start.
func checkAdvisories(in *Input) Check {
	var warnings, notices, fixes []string
	today := in.Now()
	for _, a := range in.Info.Advisories {
		switch {
		case a.Warns(today):
			warnings = append(warnings, a.Text(today))
			if a.Fixed != "" {
				fixes = append(fixes, a.Fixed)
			}
		case a.Near(today):
			notices = append(notices, a.Text(today))
		}
	}
	fix := "Use a driver of a branch that NVIDIA supports (driver-build drivers lists them)."
	if len(fixes) > 0 {
		fix = "Use driver " + strings.Join(fixes, " or ") + " or a newer one."
	}
	switch {
	case len(warnings) > 0:
		return warn(
			fix,
			"driver %s: %s",
			in.Info.Driver,
			strings.Join(append(warnings, notices...), "; "),
		)
	case len(notices) > 0:
		return ok("driver %s: %s", in.Info.Driver, strings.Join(notices, "; "))
	default:
		return ok("nothing is known against driver %s", in.Info.Driver)
	}
}
