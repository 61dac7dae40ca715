package releases

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/matrix/edit"
	"github.com/driver-container/driver-container/images/redist"
)

// Entry is a driver on its way into the matrix. Its public fields are what the user gave.
type Entry struct {
	Version    string
	Archs      []string  // empty: those whose address is known
	URLs       []string  // [ARCH=]URL of archives
	Index      string    // address of a list of checksums; "": none
	IndexName  string    // what messages and the matrix call it
	Source     Source    // of NVIDIA's list
	Manifest   Manifest  // of NVIDIA's redist folder; without an address NVIDIA's own, where it is needed
	NoManifest bool      // NVIDIA's own is not asked for
	Day        time.Time // that the entry is added on

	// Read reads the newest state of a file, of at most so many bytes.
	Read func(ctx context.Context, address string, limit int64) ([]byte, error)

	// Download keeps an archive in the cache and hashes it; nil: archives are not downloaded.
	Download func(ctx context.Context, address string, limit int64) (sha256 string, size int64, err error)

	Driver matrix.Driver // that Find has found
	Notes  []string      // what the user should know

	urls           map[string]string // by architecture
	sums           []Sum             // of the index
	known          Known
	manifest       *Release          // what a manifest says of the driver; nil: none was read
	have           []string          // versions of the matrix
	componentsFrom []string          // sources of the checksums of components
	sources        map[string]string // by architecture: who says its sha256
}

// firstOpen is the first branch with open kernel modules.
const firstOpen = "515"

// Check refuses before anything is asked: mistakes in arguments, a driver that is there, a matrix that cannot
// be edited.
func (e *Entry) Check(file string, text []byte) error {
	e.urls, e.sources = map[string]string{}, map[string]string{}
	for _, arch := range e.Archs {
		if arch != "amd64" && arch != "arm64" {
			return fmt.Errorf("--arch %q is not known: use amd64 or arm64", arch)
		}
	}
	for _, u := range e.URLs {
		arch, rest, ok := strings.Cut(u, "=")
		if !ok || strings.Contains(arch, ":") { // no ARCH=: an address may hold a =
			arch, rest = "amd64", u
			if len(e.Archs) == 1 {
				arch = e.Archs[0]
			}
		}
		if arch != "amd64" && arch != "arm64" || e.urls[arch] != "" {
			return fmt.Errorf("--url %s: give [amd64=]URL or arm64=URL, each once", u)
		}
		e.urls[arch] = rest
	}
	e.Driver = matrix.Driver{Version: e.Version, Branch: BranchOf(e.Version), Flavours: []string{matrix.Proprietary}}
	if Compare(e.Driver.Branch, firstOpen) >= 0 {
		e.Driver.Flavours = append(e.Driver.Flavours, matrix.Open)
	}
	probe := e.Driver
	probe.Archives = map[string]matrix.Archive{"amd64": {URL: "https://example.com/x.run", SHA256: strings.Repeat("1", 64)}}
	for arch, u := range e.urls {
		probe.Archives[arch] = matrix.Archive{URL: u, SHA256: strings.Repeat("1", 64)}
	}
	if m, err := matrix.Parse(file, text); err == nil { // AddDriver reports the mistakes
		for _, d := range m.Drivers {
			e.have = append(e.have, d.Version)
		}
	}
	_, err := edit.AddDriver(file, text, probe, nil)
	var wrong matrix.Errors
	if errors.Is(err, edit.ErrLayout) && errors.As(err, &wrong) { // the entry itself: version or URL
		return fmt.Errorf("driver %s: %s", e.Version, wrong[0].Message)
	}
	return err
}

// Find fills in the driver: architectures, addresses, checksums, limits.
func (e *Entry) Find(ctx context.Context) (err error) {
	if e.Index != "" {
		if e.sums, err = e.readIndex(ctx); err != nil {
			return err
		}
	}
	if err := e.load(ctx); err != nil {
		return err
	}
	if err := e.loadManifest(ctx); err != nil {
		return err
	}
	release, _ := e.known.Release(e.Version)
	addresses := e.addresses(release)
	archs := slices.Compact(slices.Sorted(slices.Values(e.Archs)))
	if len(archs) == 0 {
		archs = slices.Sorted(maps.Keys(addresses))
	}
	if len(archs) == 0 {
		return &matrix.RequestError{Err: e.unknown()}
	}
	if v := release.Version; v != "" && v != e.Version {
		return matrix.RequestErrorf("driver %s is written %s", e.Version, v)
	}
	e.Driver.Archives = map[string]matrix.Archive{}
	for _, arch := range archs {
		if addresses[arch] == "" {
			return matrix.RequestErrorf("no address of driver %s for %s is known%s: give --url %s=URL", e.Version, arch, e.manifestLacks(arch), arch)
		}
		if e.Driver.Archives[arch], err = e.archive(ctx, arch, addresses[arch], release); err != nil {
			return err
		}
	}
	e.limits(release)
	e.components(release, archs)
	return nil
}

// componentNames are the names in the matrix of components of the redist folder.
var componentNames = map[string]string{
	redist.FabricManager: matrix.FabricManager, redist.IMEX: matrix.IMEX, redist.NSCQ: matrix.NSCQ, redist.NVLSM: matrix.NVLSM, redist.NVSDM: matrix.NVSDM,
}

// components writes down the components whose archives are known: those of the manifest and of the table,
// which were compared when the manifest was read.
func (e *Entry) components(r Release, archs []string) {
	for _, f := range r.Redist {
		name, ok := componentNames[f.Component]
		if !ok || !slices.Contains(archs, f.Arch) || f.Version != e.Version && name != matrix.NVLSM {
			continue
		}
		if e.Driver.Components == nil {
			e.Driver.Components = matrix.Components{}
		}
		if e.Driver.Components[name] == nil {
			e.Driver.Components[name] = map[string]matrix.Archive{}
		}
		e.Driver.Components[name][f.Arch] = matrix.Archive{URL: f.URL, SHA256: f.SHA256, Size: f.Size}
		if from := strings.ReplaceAll(f.From, ",", ", "); !slices.Contains(e.componentsFrom, from) {
			e.componentsFrom = append(e.componentsFrom, from)
		}
	}
}

// manifestLacks says that a manifest was read and does not have the driver for an architecture.
func (e *Entry) manifestLacks(arch string) string {
	if e.manifest == nil {
		return ""
	}
	if _, ok := e.manifest.Component(redist.Driver, arch); ok {
		return ""
	}
	return fmt.Sprintf(", and its manifest has no %s for %s", redist.Driver, redist.Platform(arch))
}

// load asks for NVIDIA's list only when the built-in table does not have the release and the user gave no
// address.
func (e *Entry) load(ctx context.Context) error {
	table, err := Builtin()
	if err != nil {
		return err
	}
	source := e.Source
	r, ok := table.Release(e.Version)
	if source.Address == "" && (ok && len(r.Archives) > 0 || len(e.addresses(r)) > 0 || e.Manifest.Address != "") {
		source.None = true
	}
	e.known, err = Load(ctx, source)
	e.Notes = append(e.Notes, e.known.Notes...)
	return err
}

// addresses are where the archives are, by architecture: what the user gave counts.
func (e *Entry) addresses(r Release) map[string]string {
	all := map[string]string{}
	for _, arch := range []string{"amd64", "arm64"} {
		if a, ok := r.Driver(arch); ok {
			all[arch] = a.URL
		}
	}
	for _, s := range e.sums {
		if Compare(s.Version, e.Version) == 0 && (s.URL != "" || all[s.Arch] == "" && s.File != "") {
			all[s.Arch] = s.address(e.Index)
		}
	}
	maps.Copy(all, e.urls)
	return all
}

// unknown says that no source knows the release, and which known one is near.
func (e *Entry) unknown() error {
	err := fmt.Errorf("no source knows an archive of driver %s: give --redist with its manifest, or --url, and --index or --download", e.Version)
	b, ok := e.known.Branch(e.Version)
	if !ok {
		return fmt.Errorf("%w; no driver of branch %s is known", err, e.Driver.Branch)
	}
	var versions []string
	for _, r := range b.Releases { // what the matrix has needs no advice
		_, amd64 := r.Driver("amd64")
		_, arm64 := r.Driver("arm64")
		if (amd64 || arm64) && !slices.Contains(e.have, r.Version) {
			versions = append(versions, r.Version)
		}
	}
	if near := distros.Nearest(e.Version, versions); len(near) > 0 {
		return fmt.Errorf("%w; did you mean %s?", err, strings.Join(near, " or "))
	}
	return err
}

// limits writes down what is known of the kernels, and says what is not.
func (e *Entry) limits(r Release) {
	b, _ := e.known.Branch(e.Version)
	e.Driver.Kernel = driverinfo.KernelRule{Min: b.Kernel, Max: r.Kernel, Reason: r.Reason}
	var missing []string
	if b.Kernel == "" {
		missing = append(missing, "min")
	}
	if r.Kernel == "" {
		missing = append(missing, "max")
	}
	if len(missing) > 0 {
		e.Notes = append(e.Notes, fmt.Sprintf("kernel %s of %s is not known and was left out: no pair is refused for it; add it when you know",
			strings.Join(missing, " and "), e.Version))
	}
}

// Comment names the sources of the checksums, for the lines above the entry: one text for architectures with
// the same.
func (e *Entry) Comment() (wrapped []string) {
	byText := map[string][]string{}
	for _, arch := range slices.Sorted(maps.Keys(e.sources)) {
		byText[e.sources[arch]] = append(byText[e.sources[arch]], arch)
	}
	var lines []string
	for text, archs := range byText {
		of := ""
		if len(byText) > 1 {
			of = " of " + strings.Join(archs, " and ")
		}
		lines = append(lines, "sha256"+of+" from "+text)
	}
	slices.Sort(lines)
	if len(e.componentsFrom) > 0 {
		lines = append(lines, "sha256 of the components from "+strings.Join(e.componentsFrom, ", and "))
	}
	for _, l := range lines {
		wrapped = append(wrapped, wrap(l, 110)...)
	}
	return wrapped
}

// wrap breaks a line at spaces, into pieces of at most so many bytes where words allow.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		line = cmp.Or(strings.TrimSpace(line+" "+word), word)
	}
	return append(lines, line)
}
