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
)

const (
	maxArchive  = 4 << 30  // bytes of an archive; the largest has less than half a gigabyte
	maxSumsFile = 64 << 10 // bytes of a .sha256sum file, which has one line
)

// Entry is a driver on its way into a matrix. Its public fields are what the user gave.
type Entry struct {
	Version string
	Archs   []string // of [matrix.CheckArch]; empty: those whose address is known
	URLs    []string // [ARCH=]URL of archives
	Source  Source   // of NVIDIA's list
	// of NVIDIA's redist folder; without an address NVIDIA's own, where it is needed
	Manifest Source
	Day      time.Time // that the entry is added on

	// Download keeps an archive in the cache and hashes it; nil: archives are not downloaded.
	Download func(ctx context.Context, address string, limit int64) (sha256 string, size int64, err error)

	Driver  matrix.Driver // that Find has found
	Notes   []string      // what the user should know
	Sources []string      // of the checksums: a line each, for a comment above the entry

	urls  map[string]string // by architecture
	table *Table
	have  []string // versions of the matrix
}

// Check refuses before anything is asked: mistakes in arguments, and a driver that is there.
func (e *Entry) Check(m *matrix.Matrix) error {
	e.urls = map[string]string{}
	for _, u := range e.URLs {
		arch, rest, ok := strings.Cut(u, "=")
		if !ok || strings.Contains(arch, ":") { // no ARCH=: an address may hold a =
			arch = "amd64"
			rest = u
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
		if matrix.CompareVersions(d.Version, e.Version) == 0 {
			return fmt.Errorf("driver %s is there already%s", e.Version, strings.TrimSuffix(" as "+d.Version, " as "+e.Version))
		}
		e.have = append(e.have, d.Version)
	}
	probe := matrix.Archive{URL: "https://example.com/x.run", SHA256: strings.Repeat("1", 64)}
	archives := map[string]matrix.Archive{}
	for arch, u := range e.urls {
		probe.URL = u
		archives[arch] = probe
	}
	if len(archives) == 0 {
		archives["amd64"] = probe
	}
	_, err := matrix.Stanza(matrix.Driver{Version: e.Version, Archives: archives}, nil)
	return err
}

// Find fills in the driver: architectures, addresses, checksums, limits.
func (e *Entry) Find(ctx context.Context) error {
	lacks, err := e.load(ctx)
	if err != nil {
		return err
	}
	release, _ := e.table.Release(e.Version)
	addresses := release.addresses()
	maps.Copy(addresses, e.urls)
	wanted := slices.Compact(slices.Sorted(slices.Values(e.Archs)))
	if len(wanted) == 0 {
		wanted = slices.Sorted(maps.Keys(addresses))
	}
	if len(wanted) == 0 {
		return failure.Of(failure.Usage, e.unknown())
	}
	if v := release.Version; v != "" && v != e.Version {
		return failure.Errorf(failure.Usage, "driver %s is written %s", e.Version, v)
	}
	e.Driver.Version = e.Version
	e.Driver.Archives = map[string]matrix.Archive{}
	bySource := map[string][]string{}
	for _, arch := range wanted {
		if addresses[arch] == "" {
			why := ""
			if lacks {
				why = ", and its manifest has no " + redistDriver + " for " + matrix.Platform(arch)
			}
			return failure.Errorf(failure.Usage, "no address of driver %s for %s is known%s: give --url %s=URL",
				e.Version, arch, why, arch)
		}
		a, from, err := e.archive(ctx, arch, addresses[arch], release)
		if err != nil {
			return err
		}
		e.Driver.Archives[arch] = a
		bySource[from] = append(bySource[from], arch)
	}
	for _, from := range slices.Sorted(maps.Keys(bySource)) {
		of := ""
		if len(bySource) > 1 {
			of = " of " + strings.Join(bySource[from], " and ")
		}
		e.Sources = append(e.Sources, "sha256"+of+" from "+from+"; added "+e.Day.Format(time.DateOnly))
	}
	e.limits(release)
	e.components(release, wanted)
	return nil
}

// load reads what is known of drivers: NVIDIA's list only when the built-in table does not have the
// release and the user gave no address; the manifest that the user named, or NVIDIA's own where
// nothing else knows an archive. Only what the user named must be there. read says that a manifest
// was read.
func (e *Entry) load(ctx context.Context) (read bool, err error) {
	list := e.Source
	m := e.Manifest
	built, _ := Builtin().Release(e.Version)
	list.None = list.None || list.Address == "" && (len(e.urls) > 0 || m.Address != "" || len(built.addresses()) > 0)
	e.table, e.Notes, err = Load(ctx, list)
	if err != nil {
		return false, err
	}
	known, _ := e.table.Release(e.Version)
	needless := m.None || e.Source.None || slices.ContainsFunc(known.Archives, func(a Archive) bool { return a.Component != "" })
	if m.Address == "" && needless {
		return false, nil
	}
	table, release, err := e.table.ReadManifest(ctx, m, e.Version)
	switch {
	case err != nil && m.Address != "":
		return false, err
	case errors.Is(err, fs.ErrNotExist):
		e.note("NVIDIA's redist folder has no manifest of driver %s", e.Version)
		return false, nil
	case err != nil:
		e.note("NVIDIA's manifest of driver %s is not used: %v", e.Version, err)
		return false, nil
	}
	e.table = table
	e.Driver.CUDA = release.CUDA
	return true, nil
}

func (e *Entry) note(format string, args ...any) {
	e.Notes = append(e.Notes, fmt.Sprintf(format, args...))
}

// archive pins one archive: sha256, size and who says so. All sources that know the archive must
// say the same. The .sha256sum file beside an archive is asked only if there is no other, and
// archives of the redist folder have none.
func (e *Entry) archive(ctx context.Context, arch, address string, r Release) (a matrix.Archive, from string, err error) {
	a.URL = address
	component := ""
	if a.Redist() {
		component = redistDriver
	}
	known, _ := r.Archive(component, arch)
	if known.SHA256 == "" && !a.Redist() {
		known = Archive{From: "the .sha256sum file beside the archive"}
		known.SHA256, err = e.beside(ctx, address)
		if ctx.Err() != nil {
			return a, "", context.Cause(ctx)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			e.note("%s.sha256sum: %v", Shown(address), err)
		}
	}
	own := known
	switch {
	case e.Download != nil:
		own.SHA256, own.Size, err = e.Download(ctx, address, maxArchive)
		if err != nil {
			return a, "", err
		}
	case known.SHA256 == "":
		return a, "", failure.Errorf(failure.Usage, "no checksum is known for driver %s %s (%s): give --redist, or --download to take the "+
			"archive's own", e.Version, arch, address)
	}
	a.SHA256 = own.SHA256
	a.Size = max(known.Size, own.Size)
	if known.SHA256 == "" {
		return a, "a download alone", nil
	}
	from = known.From
	if e.Download != nil {
		own.From = "a download"
		own.URL = address
		from += ", and a download"
	}
	return a, from, agree(known, own)
}

// beside reads the sha256 in the .sha256sum file beside an archive.
func (e *Entry) beside(ctx context.Context, address string) (string, error) {
	text, err := e.Source.Read(ctx, address+".sha256sum", maxSumsFile)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		sum, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		sum = strings.ToLower(sum)
		if fileOf(strings.TrimLeft(file, " *")) == fileOf(address) && matrix.HasForm("digest", sum) {
			return sum, nil
		}
	}
	return "", errors.New("it is of another file")
}

// components writes down the components whose archives are known: those of the manifest and of the
// table, which were compared when the manifest was read.
func (e *Entry) components(r Release, archs []string) {
	e.Driver.Components = matrix.Components{}
	var sources []string
	for _, f := range r.Archives {
		name := componentNames[f.Component]
		if name == "" || !slices.Contains(archs, f.Arch) || f.Version != e.Version && name != matrix.NVLSM {
			continue
		}
		if e.Driver.Components[name] == nil {
			e.Driver.Components[name] = map[string]matrix.Archive{}
		}
		e.Driver.Components[name][f.Arch] = matrix.Archive{URL: f.URL, SHA256: f.SHA256, Size: f.Size}
		from := strings.TrimSuffix(f.From, fromTable)
		if !slices.Contains(sources, from) {
			sources = append(sources, from)
		}
	}
	if len(sources) > 0 {
		e.Sources = append(e.Sources, "sha256 of the components from "+strings.Join(sources, ", and "))
	}
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
			e.note("kernel %s of %s is not known and was left out: no pair is refused for it; add it when you know",
				k[0], e.Version)
		}
	}
}
