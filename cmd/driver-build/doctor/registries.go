package doctor

import (
	"context"
	"fmt"
	"maps"
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

// Mirrors asks each mirror of a registry alone for the base of the registry's first system. A mirror that
// does not answer is a warning, because the next one or the registry itself is asked then.
func Mirrors(client Registry, mirrors map[string][]string, systems []matrix.System, skip string) (all []Question) {
	for _, host := range slices.Sorted(maps.Keys(mirrors)) {
		registry, err := name.NewRegistry(host)
		if err != nil {
			continue // it was checked when the session was opened
		}
		i := slices.IndexFunc(systems, func(s matrix.System) bool {
			ref, err := name.ParseReference(s.Base)
			return err == nil && ref.Context().RegistryStr() == registry.RegistryStr()
		})
		if i < 0 {
			continue // no base comes from there
		}
		ref, err := name.ParseReference(tagged(systems[i].Base))
		if err != nil {
			continue
		}
		for _, mirror := range mirrors[host] {
			q := Question{Name: "mirror " + mirror, Skip: skip, Optional: true, Fix: "correct --registry-mirror or defaults.mirrors of the matrix, or log in to the mirror"}
			if strings.HasPrefix(mirror, "http://") && skip == "" {
				q.Skip = "plain HTTP is not asked alone"
			}
			text := mirror + "/" + ref.Context().RepositoryStr() + separator(ref) + ref.Identifier()
			q.Ask = func(ctx context.Context) (string, error) {
				digest, err := client.Resolve(ctx, text, systems[i].Archs[0])
				if err != nil {
					return "", err
				}
				return fmt.Sprintf("%s is %s", text, digest), nil
			}
			all = append(all, q)
		}
	}
	return all
}

// separator stands between the repository and the identifier of a reference.
func separator(ref name.Reference) string {
	if _, ok := ref.(name.Digest); ok {
		return "@"
	}
	return ":"
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
