package releases

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/images/matrix"
)

// CUDA is a release of CUDA with its drivers. Nothing of CUDA but libcuda is in a driver image.
type CUDA struct {
	Version string // "12.8"
	Floor   string // the lowest driver that runs it
	Native  string // the first driver that came with it; "" if that is not known
}

// CUDASupport says how a driver runs a release of CUDA.
type CUDASupport string

// The types of support.
const (
	CUDANative CUDASupport = "native"        // nothing is missing
	CUDAMinor  CUDASupport = "minor-version" // by minor-version compatibility: with limits
	CUDANone   CUDASupport = "none"
)

// CUDAAnswer says how a driver runs a release of CUDA, and why.
type CUDAAnswer struct {
	Support CUDASupport `json:"support" yaml:"support"`
	// the highest release that the driver runs natively
	Highest string `json:"highest,omitempty" yaml:"highest,omitempty"`
	// the limits, or what is needed
	Why string `json:"why,omitempty" yaml:"why,omitempty"`
}

const (
	firstCompat = 10 // the first major version with a package cuda-compat
	firstMinor  = 11 // the first major version with minor-version compatibility
)

// CUDAReleases are the releases of the built-in table, rising.
func CUDAReleases() (all []CUDA) {
	for _, row := range rows("cuda.tsv") {
		// and letters for the source, which the head of the file explains
		all = append(all, CUDA{Version: row[0], Floor: row[1], Native: row[2]})
	}
	return all
}

// CUDAOf returns the highest release that a driver runs natively: the one that its entry in the
// matrix states, or that of the table; "" for a driver before the table. A driver of a branch that
// the table does not name has at least this one.
func CUDAOf(driver, stated string) (version string) {
	if stated != "" {
		return stated
	}
	for _, r := range CUDAReleases() {
		if matrix.CompareVersions(r.Native, driver) <= 0 {
			version = r.Version
		}
	}
	return version
}

// RequireCUDA returns the release that a text names: one of the table, or one that a driver of the
// matrix states.
func RequireCUDA(m *matrix.Matrix, text string) (r CUDA, err error) {
	if update := cudaUpdate.FindStringSubmatch(text); update != nil {
		return r, fmt.Errorf("%.40q is no release of CUDA for drivers: give its first two numbers, %s; "+
			"updates of a release have the same drivers", text, update[1])
	}
	if !matrix.HasForm("cuda", text) {
		return r, fmt.Errorf("%.40q is no release of CUDA, such as 12.8", text)
	}
	known := CUDAReleases()
	nearest := known[0]
	for _, other := range known {
		if matrix.CompareVersions(other.Version, text) <= 0 {
			nearest = other
		}
	}
	stated := slices.ContainsFunc(m.Drivers, func(d matrix.Driver) bool { return d.CUDA == text })
	switch {
	case matrix.CompareVersions(nearest.Version, text) == 0:
		return nearest, nil
	case matrix.Major(nearest.Version) != matrix.Major(text):
		return r, fmt.Errorf("no CUDA %s is known: the table of driver-build has %s to %s",
			text, known[0].Version, known[len(known)-1].Version)
	case stated && matrix.Major(text) >= firstMinor:
		return CUDA{Version: text, Floor: nearest.Floor}, nil
	}
	return r, fmt.Errorf("no CUDA %s is known: the nearest is %s", text, nearest.Version)
}

// cudaUpdate is an update of a release: 12.8.1.
var cudaUpdate = regexp.MustCompile(`^([1-9][0-9]?\.[0-9]{1,2})\.`)

// RunByDriver says how a driver of the matrix runs the release.
func (r CUDA) RunByDriver(d matrix.Driver) CUDAAnswer { return r.RunBy(d.Version, d.CUDA) }

// RunBy says how a driver runs the release. stated is what its entry in the matrix says of CUDA.
func (r CUDA) RunBy(driver, stated string) CUDAAnswer {
	a := CUDAAnswer{Support: CUDANative, Highest: CUDAOf(driver, stated)}
	has := "has CUDA " + a.Highest
	if a.Highest == "" {
		has = "is older than any CUDA that is known"
	}
	switch {
	case matrix.CompareVersions(a.Highest, r.Version) >= 0:
	case matrix.Major(r.Version) >= firstMinor && matrix.CompareVersions(driver, r.Floor) >= 0:
		a.Support = CUDAMinor
		a.Why = fmt.Sprintf("driver %s %s: programs of %[3]s run by minor-version compatibility, but it compiles no PTX of %[3]s, "+
			"and calls that need a newer driver fail", driver, has, r.Version)
	default:
		a.Support = CUDANone
		a.Why = fmt.Sprintf("driver %s %s; CUDA %s needs %s or newer%s",
			driver, has, r.Version, r.Floor, r.compatPackage())
	}
	return a
}

// Explain says in one sentence what runs the release, and with which limits.
func (r CUDA) Explain() string {
	text := fmt.Sprintf("CUDA %s needs driver %s or newer%s", r.Version, r.Floor, r.compatPackage())
	limits := "minor-version means that the driver compiles no PTX of " + r.Version + " and that calls that need a newer driver fail"
	switch r.Native {
	case r.Floor:
		return text
	case "":
		return text + "; " + limits
	}
	return fmt.Sprintf("%s; from %s on nothing is missing, below %s", text, r.Native, limits)
}

// compatPackage says what runs the release on an older driver all the same.
func (r CUDA) compatPackage() string {
	if matrix.Major(r.Version) < firstCompat {
		return ""
	}
	name := "cuda-compat-" + strings.ReplaceAll(r.Version, ".", "-")
	return ", or the package " + name + " in the application's image, on data center GPUs only"
}
