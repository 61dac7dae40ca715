package batch

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/compression"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/imagename"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/registry"
)

// Sources say where base, packages and driver come from instead of what the matrix says.
type Sources struct {
	Base   string // as registry.Client.Base takes it
	Mirror string // of packages: words as distros.ParseMirror takes them
	Source string // of the driver's archive: URL or file
}

// CheckMirror finds mistakes in a mirror of packages.
func CheckMirror(text string) error {
	mirror, err := distros.ParseMirror(text)
	for _, address := range mirror.URLs() {
		err = errors.Join(err, fetch.CheckURL(address))
	}
	return err
}

// Options are the choices for all images: the sources, profile, compression (auto: by the system),
// and SOURCE_DATE_EPOCH as epoch.
func (s Sources) Options(profile, compression, epoch string) (o recipe.Options, err error) {
	o.Base = s.Base
	o.Mirror = s.Mirror
	o.Profile, err = recipe.ParseProfile(profile)
	if err != nil {
		return o, failure.Of(failure.Usage, err)
	}
	if compression != "" && compression != "auto" {
		o.Compression, err = recipe.ParseCompression(compression)
		if err != nil {
			return o, failure.Of(failure.Usage, err)
		}
	}
	if epoch != "" {
		o.Epoch, err = ParseEpoch(epoch)
		if err != nil {
			return o, err
		}
	}
	if s.Source != "" {
		o.Source, err = fetch.Address("--source", s.Source)
		if err != nil {
			return o, failure.Of(failure.Usage, err)
		}
	}
	return o, nil
}

// ParseEpoch parses SOURCE_DATE_EPOCH: seconds since 1970.
func ParseEpoch(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, failure.Errorf(
			failure.Usage,
			"SOURCE_DATE_EPOCH %q is not a number of seconds since 1970",
			text,
		)
	}
	return n, nil
}

// CheckRepository refuses a text that cannot be the repository of images; "" is none.
func CheckRepository(repository string) error {
	if repository == "" {
		return nil
	}
	if err := imagename.CheckRepository(repository); err != nil {
		return failure.Errorf(failure.Usage, "--repository (DRIVER_BUILD_REPOSITORY) %w", err)
	}
	return nil
}

// CheckPrograms finds the programs for the images of all targets before anything is downloaded for
// them. It returns what the images will lack.
func CheckPrograms(find Programs, targets []matrix.Target) (lacks []string, err error) {
	var checked []string
	for _, t := range targets {
		if slices.Contains(checked, t.Arch) {
			continue
		}
		checked = append(checked, t.Arch)
		found, err := find(t.Arch)
		if err != nil {
			return nil, failure.Of(failure.Usage, fmt.Errorf("the programs for the image: %w", err))
		}
		if !slices.ContainsFunc(
			found,
			func(b recipe.Binary) bool { return b.Name == recipe.ProbeName },
		) {
			lacks = append(
				lacks,
				fmt.Sprintf(
					"images for %s have no %s: %s",
					t.Arch,
					recipe.ProbeName,
					recipe.WithoutProbe,
				),
			)
		}
	}
	return lacks, nil
}

// Programs finds the programs that go into images of an architecture.
type Programs = func(arch string) ([]recipe.Binary, error)

// Connection says how the cache and the network are reached, and what all images have in common.
type Connection struct {
	// without its store; files are fetched with the same jobs, authorities, attempts, and offline
	Registry      registry.Options
	Cache         string // folder
	AllowRollback bool   // as in images.Builder
	NoHelpers     bool   // decompresses in Go only
	Programs      Programs
	Info          recipe.BuilderInfo
	Observe       progress.Observer
}

// Connect opens the cache and makes a builder. It uses no network.
func Connect(c Connection) (*images.Builder, error) {
	client, err := httpClient(c.Registry.CAFile)
	if err != nil {
		return nil, failure.Of(failure.Usage, err)
	}
	r := c.Registry
	r.Store, err = fetch.OpenStore(c.Cache)
	if err != nil {
		return nil, failure.Errorf(
			failure.Usage,
			"open the cache: %w: give another folder with --cache",
			err,
		)
	}
	registries, err := registry.New(r)
	if err != nil {
		return nil, failure.Of(failure.Usage, err)
	}
	files := &fetch.Client{
		Store: r.Store, HTTP: client, Offline: r.Offline, UserAgent: "driver-build/" + c.Info.Version, Attempts: r.Attempts, Backoff: r.Backoff,
	}
	b := &images.Builder{
		Store: r.Store, Fetch: files, Registry: registries, Observe: c.Observe,
		Jobs: r.Jobs, Machine: os.DirFS("/"), AllowRollback: c.AllowRollback,
		Binaries: c.Programs, Info: c.Info,
	}
	if !c.NoHelpers {
		b.XZ = compression.FindXZ()
	}
	return b, nil
}

// httpClient trusts the authorities of a file besides the system's, for package mirrors and driver
// downloads.
func httpClient(authorities string) (*http.Client, error) {
	if authorities == "" {
		return nil, nil //nolint:nilnil // nil is fetch's own client
	}
	pool, err := registry.Authorities(authorities)
	if err != nil {
		return nil, failure.Errorf(failure.Usage, "--ca (DRIVER_BUILD_CA): %w", err)
	}
	t := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert,errcheck // nothing replaces it
	t.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	return &http.Client{Transport: t}, nil
}
