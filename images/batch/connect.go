package batch

import (
	"crypto/tls"
	"errors"
	"net/http"
	"os"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/distros/unxz"
	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/packages"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/registry"
)

// Programs finds the programs that go into images of an architecture.
type Programs = func(arch string) ([]recipe.Binary, error)

// Connection says how the cache and the network are reached, and what all images have in common.
type Connection struct {
	Registry      registry.Options // without its store; files are fetched with the same jobs, authorities, attempts, and offline
	Cache         string           // folder
	AllowRollback bool             // as in images.Builder
	NoHelpers     bool             // decompresses in Go only
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
	if r.Store, err = fetch.OpenStore(c.Cache); err != nil {
		return nil, failure.Errorf(failure.Usage, "open the cache: %w: give another folder with --cache", err)
	}
	registries, err := registry.New(r)
	if err != nil {
		return nil, failure.Of(failure.Usage, err)
	}
	files := &fetch.Client{
		Store: r.Store, HTTP: client, Offline: r.Offline, UserAgent: "driver-build/" + c.Info.Version, Attempts: r.Attempts, Backoff: r.Backoff,
	}
	env := packages.Env{Store: r.Store, Fetch: files, Jobs: r.Jobs, Machine: os.DirFS("/"), AllowRollback: c.AllowRollback}
	if !c.NoHelpers {
		env.XZ = unxz.Find()
	}
	return &images.Builder{
		Planner: images.Planner{Env: env, Registry: registries, Observe: c.Observe}, Binaries: c.Programs, Info: c.Info,
	}, nil
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
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return nil, errors.New("the default HTTP transport has been replaced")
	}
	t = t.Clone()
	t.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	return &http.Client{Transport: t}, nil
}
