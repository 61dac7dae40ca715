// Command oras copies artifacts and lists referrers with oras-go, the library of the program oras.
//
//	oras copy SOURCE DESTINATION   with everything that refers to the source (oras cp -r); prints the digest
//	oras referrers NAME            prints the descriptor of each, as JSON, a line each
//
// A name is HOST/PATH:TAG, or oci:FILE:TAG for an OCI layout in a folder or a tar (a source only). Registries
// speak plain HTTP.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/oci"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
)

func main() {
	err := errors.New("usage: oras copy SOURCE DESTINATION | oras referrers NAME")
	if len(os.Args) == 4 && os.Args[1] == "copy" {
		err = copyAll(context.Background(), os.Args[2], os.Args[3])
	} else if len(os.Args) == 3 && os.Args[1] == "referrers" {
		err = referrers(context.Background(), os.Args[2])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "oras:", err)
		os.Exit(1)
	}
}

func copyAll(ctx context.Context, from, to string) error {
	source, tag, err := open(ctx, from)
	if err != nil {
		return err
	}
	destination, err := repository(to)
	if err != nil {
		return err
	}
	desc, err := oras.ExtendedCopy(ctx, source, tag, destination, destination.Reference.Reference, oras.DefaultExtendedCopyOptions)
	if err == nil {
		fmt.Println(desc.Digest)
	}
	return err
}

func referrers(ctx context.Context, name string) error {
	target, tag, err := open(ctx, name)
	if err != nil {
		return err
	}
	subject, err := target.Resolve(ctx, tag)
	if err != nil {
		return err
	}
	found, err := registry.Referrers(ctx, target, subject, "")
	if err != nil {
		return err
	}
	for _, desc := range found {
		if err := json.NewEncoder(os.Stdout).Encode(v1.Descriptor{MediaType: desc.MediaType, ArtifactType: desc.ArtifactType,
			Digest: desc.Digest, Size: desc.Size, Annotations: desc.Annotations}); err != nil {
			return err
		}
	}
	return nil
}

// open returns the place of a name, and the tag or digest in it.
func open(ctx context.Context, name string) (oras.ReadOnlyGraphTarget, string, error) {
	layout, found := strings.CutPrefix(name, "oci:")
	if !found {
		r, err := repository(name)
		if err != nil {
			return nil, "", err
		}
		return r, r.Reference.Reference, nil
	}
	path, tag, _ := strings.Cut(layout, ":")
	info, err := os.Stat(path)
	if err != nil {
		return nil, "", err
	}
	if info.IsDir() {
		store, err := oci.NewFromFS(ctx, os.DirFS(path))
		return store, tag, err
	}
	store, err := oci.NewFromTar(ctx, path)
	return store, tag, err
}

func repository(name string) (*remote.Repository, error) {
	r, err := remote.NewRepository(name)
	if err == nil {
		r.PlainHTTP, r.SkipReferrersGC = true, true // as the program oras
	}
	return r, err
}
