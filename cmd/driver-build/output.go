package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/driver-container/driver-container/images/registry"
)

// output is one --output.
type output struct{ kind, path string }

// parseOutputs checks all of them before anything is done.
func parseOutputs(values []string) ([]output, error) {
	var outs []output
	for _, v := range values {
		kind, path, ok := strings.Cut(v, ":")
		if !ok || path == "" {
			return nil, usageError{fmt.Errorf("--output %q: give oci:DIR, oci-archive:FILE or docker-archive:FILE", v)}
		}
		switch kind {
		case "oci", "oci-archive", "docker-archive":
			outs = append(outs, output{kind, path})
		default:
			return nil, usageError{fmt.Errorf("--output %q: %q is not known: use oci, oci-archive or docker-archive", v, kind)}
		}
	}
	return outs, nil
}

// check refuses what the format cannot hold.
func (o output) check(groups []group, zstd bool) error {
	switch {
	case o.kind != "oci" && len(groups) > 1:
		return usageError{fmt.Errorf("--output %s:%s: an archive holds one image, %d are to be built: use oci:DIR", o.kind, o.path, len(groups))}
	case o.kind == "docker-archive" && len(groups[0].items) > 1:
		return usageError{fmt.Errorf("--output %s:%s: docker load knows one architecture: use oci:DIR or oci-archive:FILE", o.kind, o.path)}
	case o.kind == "docker-archive" && zstd:
		return usageError{fmt.Errorf("--output %s:%s: docker load cannot read zstd layers: use --compression gzip", o.kind, o.path)}
	}
	return nil
}

// write stores an artifact under its tag and returns the line for stdout, without digest.
func (o output) write(ctx context.Context, repository, tag string, t registry.Artifact) (string, error) {
	switch o.kind {
	case "oci":
		return "oci:" + o.path + ":" + tag, registry.WriteLayout(ctx, o.path, tag, t)
	case "oci-archive":
		return "oci-archive:" + o.path + ":" + tag, registry.WriteOCIArchive(ctx, o.path, tag, t)
	default:
		if repository == "" {
			repository = "driver"
		}
		return "docker-archive:" + o.path + ":" + repository + ":" + tag, registry.WriteDockerArchive(ctx, o.path, repository+":"+tag, t)
	}
}
