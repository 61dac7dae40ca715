package doctor

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/matrix"
)

// Registry is what is asked of registries.
type Registry interface {
	Resolve(ctx context.Context, ref, arch string) (v1.Hash, error)
	CheckPush(ctx context.Context, repository string) error
	ListTags(ctx context.Context, repository string) ([]string, error)
}

// Bases asks each registry that bases come from, through its mirrors, for the base of its first system. skip
// says why they are not asked.
func Bases(client Registry, systems []matrix.System, skip string) (all []Question) {
	var hosts []string
	for _, s := range systems {
		ref, err := name.ParseReference(s.Base)
		if err != nil || slices.Contains(hosts, ref.Context().RegistryStr()) {
			continue // the matrix has checked its references
		}
		host := ref.Context().RegistryStr()
		hosts = append(hosts, host)
		if host == name.DefaultRegistry {
			host = "docker.io" // as people and --registry-mirror write it
		}
		all = append(all, Question{
			Name: "bases of " + host, Skip: skip,
			Fix: "reach it through a proxy (HTTPS_PROXY) or --registry-mirror " + host + "=MIRROR, trust its authority with --ca, log in with driver-build login " + host,
			Ask: func(ctx context.Context) (string, error) {
				base := tagged(s.Base)
				digest, err := client.Resolve(ctx, base, s.Archs[0])
				if err != nil {
					return "", err
				}
				return fmt.Sprintf("%s is %s", base, digest), nil
			},
		})
	}
	return all
}

// tagged returns a reference without its digest, if it has a tag: what a digest names may be in the cache,
// and then no registry is asked.
func tagged(base string) string {
	ref, _, pinned := strings.Cut(base, "@")
	if pinned && strings.Contains(path.Base(ref), ":") {
		return ref
	}
	return base
}

// Repository asks whether images can be pushed to a repository and its tags listed.
func Repository(client Registry, repository string) Question {
	q := Question{Name: "repository"}
	if repository == "" {
		q.Skip = "give --repository to ask whether images can be pushed"
		return q
	}
	host, _, _ := strings.Cut(repository, "/")
	q.Fix = "log in with driver-build login " + host + ", trust its authority with --ca, ask its owner for the right to push to " + repository
	q.Ask = func(ctx context.Context) (string, error) {
		if err := client.CheckPush(ctx, repository); err != nil {
			return "", err
		}
		tags, err := client.ListTags(ctx, repository)
		if err != nil {
			return fmt.Sprintf("%s accepts pushes; its tags are not listed: %s", repository, err), nil
		}
		return fmt.Sprintf("%s accepts pushes and has %d images", repository, len(tags)), nil
	}
	return q
}
