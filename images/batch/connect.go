package batch

import (
	"crypto/tls"
	"errors"
	"net/http"
	"os"
	"time"

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
	Cache         string // folder
	Jobs          int
	Offline       bool                // downloads nothing
	Insecure      bool                // as in registry.Options
	CAFile        string              // authorities that are trusted besides the system's; "": none
	Mirrors       map[string][]string // of registries
	MountFrom     []string            // as in registry.Options
	AllowRollback bool                // as in images.Builder
	NoHelpers     bool                // decompresses in Go only
	Programs      Programs
	Info          recipe.BuilderInfo
	Attempts      int           // 0: the default
	Backoff       time.Duration // 0: the default

	Observe  progress.Observer
	Progress func(registry.Event)
}

// Connect opens the cache and makes a builder. It uses no network.
func Connect(c Connection) (*images.Builder, error) {
	client, err := c.httpClient()
	if err != nil {
		return nil, failure.Of(failure.Usage, err)
	}
	store, err := fetch.OpenStore(c.Cache)
	if err != nil {
		return nil, failure.Errorf(failure.Usage, "open the cache: %w: give another folder with --cache", err)
	}
	registries, err := registry.New(registry.Options{
		Store: store, Insecure: c.Insecure, CAFile: c.CAFile, Mirrors: c.Mirrors, Offline: c.Offline, Jobs: c.Jobs, Progress: c.Progress,
		Attempts: c.Attempts, Backoff: c.Backoff, MountFrom: c.MountFrom,
	})
	if err != nil {
		return nil, failure.Of(failure.Usage, err)
	}
	files := &fetch.Client{
		Store: store, HTTP: client, Offline: c.Offline, UserAgent: "driver-build/" + c.Info.Version, Attempts: c.Attempts, Backoff: c.Backoff,
	}
	env := packages.Env{Store: store, Fetch: files, Jobs: c.Jobs, Machine: os.DirFS("/"), AllowRollback: c.AllowRollback}
	if !c.NoHelpers {
		env.XZ = unxz.Find()
	}
	return &images.Builder{
		Planner: images.Planner{Env: env, Registry: registries, Observe: c.Observe}, Binaries: c.Programs, Info: c.Info,
	}, nil
}

// httpClient trusts the authorities of the CA file besides the system's, for package mirrors and driver
// downloads.
func (c *Connection) httpClient() (*http.Client, error) {
	if c.CAFile == "" {
		return nil, nil //nolint:nilnil // nil is fetch's own client
	}
	pool, err := registry.Authorities(c.CAFile)
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
