package images_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/registry"
)

// example stands for the test that a world of repositories and a registry belongs to.
type example struct {
	testing.TB

	ends []func()
}

func (e *example) Helper()                   {}
func (e *example) Cleanup(end func())        { e.ends = append(e.ends, end) }
func (e *example) Fatal(args ...any)         { panic(fmt.Sprint(args...)) }
func (e *example) Fatalf(f string, a ...any) { panic(fmt.Sprintf(f, a...)) }
func (e *example) must(err error) {
	if err != nil {
		panic(err)
	}
}

// newExample returns a builder with an empty cache, and a request for one image of a world.
func newExample() (e *example, b *images.Builder, q images.Request) {
	e = &example{}
	world := imagetest.New(e)
	dir, err := os.MkdirTemp("", "example")
	e.must(err)
	e.Cleanup(func() { _ = os.RemoveAll(dir) })
	store, err := fetch.OpenStore(filepath.Join(dir, "cache"))
	e.must(err)
	client, err := registry.New(registry.Options{Store: store})
	e.must(err)
	e.Cleanup(client.Close)
	program := filepath.Join(dir, recipe.EntrypointName)
	e.must(os.WriteFile(program, []byte("program"), 0o600))
	b = &images.Builder{
		Store:    store,
		Fetch:    &fetch.Client{Store: store},
		Registry: client,
		Binaries: func(string) ([]recipe.Binary, error) {
			sum := fmt.Sprintf("%x", sha256.Sum256([]byte("program")))
			return []recipe.Binary{{Name: recipe.EntrypointName, SHA256: sum, Path: program}}, nil
		},
	}
	m, err := matrix.Parse("matrix.yaml", []byte(world.Matrix()))
	e.must(err)
	q.Targets, err = m.Select(matrix.Selection{
		Systems: []string{"debian12"},
		Drivers: []string{imagetest.NewDriver},
	})
	e.must(err)
	return e, b, q
}

func (e *example) end() {
	for _, end := range e.ends {
		end()
	}
}

// A plan pins what goes into the images of a request: here the image of a driver for Debian 12.
func ExampleBuilder_Plan() {
	e, b, q := newExample()
	defer e.end()
	recipes, err := b.Plan(context.Background(), q)
	e.must(err)
	for _, r := range recipes {
		fmt.Println(r.Tag, r.Arch, len(r.Packages) > 0, len(r.Source.Packages) > 0)
	}
	// Output: 535.261.03-debian12 amd64 true true
}

// An image is layers on a base, each made from a part of the recipe.
func ExampleBuilder_Build() {
	e, b, q := newExample()
	defer e.end()
	ctx := context.Background()
	recipes, err := b.Plan(ctx, q)
	e.must(err)
	img, err := b.Build(ctx, recipes[0])
	e.must(err)
	config, err := img.ConfigFile()
	e.must(err)
	for _, layer := range config.History[1:] {
		fmt.Println(layer.CreatedBy)
	}
	// Output:
	// driver-build : packages
	// driver-build : user-mode driver
	// driver-build : kernel sources
	// driver-build : entrypoint
	// driver-build : loader cache
	// driver-build : description
}
