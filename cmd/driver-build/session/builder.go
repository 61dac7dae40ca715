package session

import (
	"crypto/tls"
	"net/http"
	"os"

	"github.com/driver-container/driver-container/distros/compression"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/registry"
)

// Programs finds the programs that go into images of an architecture.
type Programs = func(arch string) ([]recipe.Binary, error)

// newBuilder opens the cache, a folder, and makes a builder. It uses no network. Files are fetched
// with the options of the registries.
func (a *App) newBuilder(cache string, o registry.Options) (*images.Builder, error) {
	client, err := httpClient(o.CAFile)
	if err != nil {
		return nil, Usage(err)
	}
	o.Store, err = fetch.OpenStore(cache)
	if err != nil {
		return nil, Usagef("open the cache: %w: give another folder with --cache", err)
	}
	registries, err := registry.New(o)
	if err != nil {
		return nil, Usage(err)
	}
	b := &images.Builder{
		Store:         o.Store,
		Registry:      registries,
		Jobs:          o.Jobs,
		Machine:       os.DirFS("/"),
		AllowRollback: a.rollback,
		Info:          BuildInfo(),
	}
	b.Fetch = &fetch.Client{
		Store:     o.Store,
		HTTP:      client,
		Offline:   o.Offline,
		UserAgent: "driver-build/" + b.Info.Version,
		Attempts:  o.Attempts,
		Backoff:   o.Backoff,
	}
	b.XZ = compression.FindXZ()
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
		return nil, Usagef("--ca (DRIVER_BUILD_CA): %w", err)
	}
	t := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert,errcheck // nothing replaces it
	t.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	return &http.Client{Transport: t}, nil
}
