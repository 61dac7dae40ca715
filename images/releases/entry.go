package releases

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/redist"
)

const (
	maxArchive  = 4 << 30  // bytes of an archive; the largest has less than half a gigabyte
	maxSumsFile = 64 << 10 // bytes of a .sha256sum file, which has one line
)

// Entry is a driver on its way into a matrix. Its public fields are what the user gave.
type Entry struct {
	Version  string
	Archs    []string  // empty: those whose address is known
	URLs     []string  // [ARCH=]URL of archives
	Source   Source    // of NVIDIA's list
	Manifest Source    // of NVIDIA's redist folder; without an address NVIDIA's own, where it is needed
	Day      time.Time // that the entry is added on

	// Download keeps an archive in the cache and hashes it; nil: archives are not downloaded.
	Download func(ctx context.Context, address string, limit int64) (sha256 string, size int64, err error)

	Driver matrix.Driver // that Find has found
	Notes  []string      // what the user should know

	urls           map[string]string // by architecture
	table          *Table
	manifest       *Release // what a manifest says of the driver; nil: none was read
	have           []string // versions of the matrix
	componentsFrom []string // sources of the checksums of components
	sources        map[string]string
}

// Check refuses before anything is asked: mistakes in arguments, and a driver that is there.
func (e *Entry) Check(m *matrix.Matrix) error {
	e.urls, e.sources = map[string]string{}, map[string]string{}
	for _, arch := range e.Archs {
		if err := matrix.CheckArch(arch); err != nil {
			return fmt.Errorf("--arch: %w", err)
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
		if matrix.CheckArch(arch) != nil || e.urls[arch] != "" {
			return fmt.Errorf("--url %s: give [amd64=]URL or arm64=URL, each once", u)
		}
		e.urls[arch] = rest
	}
	for _, d := range m.Drivers {
		if Compare(d.Version, e.Version) == 0 {
			return fmt.Errorf("driver %s is there already%s", e.Version, strings.TrimSuffix(" as "+d.Version, " as "+e.Version))
		}
		e.have = append(e.have, d.Version)
	}
	probe := matrix.Driver{Version: e.Version, Archives: map[string]matrix.Archive{}}
	for arch, u := range e.urls {
		probe.Archives[arch] = matrix.Archive{URL: u, SHA256: strings.Repeat("1", 64)}
	}
	if len(probe.Archives) == 0 {
		probe.Archives["amd64"] = matrix.Archive{URL: "https://example.com/x.run", SHA256: strings.Repeat("1", 64)}
	}
	_, err := matrix.Stanza(probe, nil)
	return err
}

// Find fills in the driver: architectures, addresses, checksums, limits.
func (e *Entry) Find(ctx context.Context) (err error) {
	if err := e.load(ctx); err != nil {
		return err
	}
	if err := e.loadManifest(ctx); err != nil {
		return err
	}
	release, _ := e.table.Release(e.Version)
	addresses := release.addresses()
	maps.Copy(addresses, e.urls)
	archs := slices.Compact(slices.Sorted(slices.Values(e.Archs)))
	if len(archs) == 0 {
		archs = slices.Sorted(maps.Keys(addresses))
	}
	if len(archs) == 0 {
		return failure.Of(failure.Usage, e.unknown())
	}
	if v := release.Version; v != "" && v != e.Version {
		return failure.Errorf(failure.Usage, "driver %s is written %s", e.Version, v)
	}
	e.Driver.Version, e.Driver.Archives = e.Version, map[string]matrix.Archive{}
	for _, arch := range archs {
		if addresses[arch] == "" {
			lacks := ""
			if e.manifest != nil {
				lacks = fmt.Sprintf(", and its manifest has no %s for %s", redist.Driver, redist.Platform(arch))
			}
			return failure.Errorf(failure.Usage, "no address of driver %s for %s is known%s: give --url %s=URL", e.Version, arch, lacks, arch)
		}
		if e.Driver.Archives[arch], err = e.archive(ctx, arch, addresses[arch], release); err != nil {
			return err
		}
	}
	e.limits(release)
	e.components(release, archs)
	return nil
}

// load asks for NVIDIA's list only when the built-in table does not have the release and the user gave no
// address.
func (e *Entry) load(ctx context.Context) (err error) {
	source := e.Source
	if source.Address == "" && (len(e.urls) > 0 || e.Manifest.Address != "") {
		source.None = true
	}
	if table, err := Builtin(); err == nil && source.Address == "" {
		r, _ := table.Release(e.Version)
		source.None = source.None || len(r.addresses()) > 0
	}
	e.table, e.Notes, err = Load(ctx, source)
	return err
}

// addresses are where the archives are, by architecture.
func (r Release) addresses() map[string]string {
	all := map[string]string{}
	for _, arch := range archs {
		if a, ok := r.Driver(arch); ok {
			all[arch] = a.URL
		}
	}
	return all
}

// archive pins one archive: sha256, size and who says so. All sources that know the archive must say the
// same. The .sha256sum file beside an archive is asked only if there is no other, and archives of the redist
// folder have none.
func (e *Entry) archive(ctx context.Context, arch, address string, r Release) (a matrix.Archive, err error) {
	a.URL = address
	known, ok := r.Archive("", arch)
	if a.Redist() {
		known, ok = r.Archive(redist.Driver, arch)
	}
	var stated []Statement
	if ok && known.SHA256 != "" {
		stated = append(stated, known.statement())
	} else if !a.Redist() {
		s, err := e.beside(ctx, address)
		if ctx.Err() != nil {
			return a, context.Cause(ctx)
		}
		if err == nil {
			stated = append(stated, s)
		} else if !errors.Is(err, fs.ErrNotExist) {
			e.Notes = append(e.Notes, fmt.Sprintf("%s.sha256sum: %v", Shown(address), err))
		}
	}
	if e.Download != nil {
		s := Statement{Source: "a download"}
		if len(stated) == 0 {
			s.Source = "a download alone"
		}
		if s.SHA256, s.Size, err = e.Download(ctx, address, maxArchive); err != nil {
			return a, err
		}
		stated = append(stated, s)
	}
	if len(stated) == 0 {
		return a, failure.Errorf(failure.Usage, "no checksum is known for driver %s %s (%s): give --redist, or --download to take the "+
			"archive's own", e.Version, arch, address)
	}
	var from []string
	for _, s := range stated {
		if err := agree(address, stated[0], s); err != nil {
			return a, err
		}
		a.SHA256, a.Size, from = s.SHA256, max(a.Size, s.Size), append(from, s.Source)
	}
	e.sources[arch] = strings.Join(from, ", and ") + "; added " + e.Day.Format(time.DateOnly)
	return a, nil
}

// beside reads the .sha256sum file beside an archive.
func (e *Entry) beside(ctx context.Context, address string) (Statement, error) {
	text, err := e.Source.Read(ctx, address+".sha256sum", maxSumsFile)
	if err != nil {
		return Statement{}, err
	}
	for line := range strings.Lines(string(text)) {
		sum, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		if sum = strings.ToLower(sum); fileOf(strings.TrimLeft(file, " *")) == fileOf(address) && sumShape.MatchString(sum) {
			return Statement{Source: "the .sha256sum file beside the archive", SHA256: sum}, nil
		}
	}
	return Statement{}, errors.New("it is of another file")
}

// componentNames are the names in the matrix of components of the redist folder.
var componentNames = map[string]string{
	redist.FabricManager: matrix.FabricManager, redist.IMEX: matrix.IMEX, redist.NSCQ: matrix.NSCQ,
	redist.NVLSM: matrix.NVLSM, redist.NVSDM: matrix.NVSDM,
}

// components writes down the components whose archives are known: those of the manifest and of the table,
// which were compared when the manifest was read.
func (e *Entry) components(r Release, archs []string) {
	all := matrix.Components{}
	for _, f := range r.Archives {
		name, ok := componentNames[f.Component]
		if !ok || !slices.Contains(archs, f.Arch) || f.Version != e.Version && name != matrix.NVLSM {
			continue
		}
		if all[name] == nil {
			all[name] = map[string]matrix.Archive{}
		}
		all[name][f.Arch] = matrix.Archive{URL: f.URL, SHA256: f.SHA256, Size: f.Size}
		if from := strings.ReplaceAll(f.From, ",", ", "); !slices.Contains(e.componentsFrom, from) {
			e.componentsFrom = append(e.componentsFrom, from)
		}
	}
	e.Driver.Components = all
}

// unknown says that no source knows the release, and which known one is near.
func (e *Entry) unknown() error {
	err := fmt.Errorf("no source knows an archive of driver %s: give --redist with its manifest, or --url and --download", e.Version)
	b, ok := e.table.Branch(e.Version)
	if !ok {
		return fmt.Errorf("%w; no driver of branch %s is known", err, BranchOf(e.Version))
	}
	var versions []string
	for _, r := range b.Releases { // what the matrix has needs no advice
		if len(r.addresses()) > 0 && !slices.Contains(e.have, r.Version) {
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
	b, _ := e.table.Branch(e.Version)
	e.Driver.Kernel = driverinfo.KernelRule{Min: b.Kernel, Max: r.Kernel, Reason: r.Reason}
	for _, k := range [][2]string{{"min", b.Kernel}, {"max", r.Kernel}} {
		if k[1] == "" {
			e.Notes = append(e.Notes, fmt.Sprintf("kernel %s of %s is not known and was left out: no pair is refused for it; add it when you know",
				k[0], e.Version))
		}
	}
}

// Comment names the sources of the checksums, for the lines above the entry: one text for architectures with
// the same.
func (e *Entry) Comment() (lines []string) {
	byText := map[string][]string{}
	for _, arch := range slices.Sorted(maps.Keys(e.sources)) {
		byText[e.sources[arch]] = append(byText[e.sources[arch]], arch)
	}
	for _, text := range slices.Sorted(maps.Keys(byText)) {
		of := ""
		if len(byText) > 1 {
			of = " of " + strings.Join(byText[text], " and ")
		}
		lines = append(lines, "sha256"+of+" from "+text)
	}
	if len(e.componentsFrom) > 0 {
		lines = append(lines, "sha256 of the components from "+strings.Join(e.componentsFrom, ", and "))
	}
	return lines
}
