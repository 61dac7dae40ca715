// Package doctor asks what a build needs of this machine and of the network. Each answer is a finding with
// what to do about it. It builds nothing, and downloads no layer and no package.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/images/matrix"
)

// Finding is the answer to a question.
type Finding struct {
	Question string `json:"question"`
	State    string `json:"state"`
	Detail   string `json:"detail"`
	Fix      string `json:"fix,omitempty"`
}

// The states. Only a fault stops a build.
const (
	OK      = "ok"
	Warning = "warning" // some builds cannot work
	Fault   = "fault"
)

// Question is something that a build needs. Ask returns what was found, in a few words.
type Question struct {
	Name     string
	Fix      string // what to do if Ask returns an error
	Optional bool   // only some builds need it: an error is a warning
	Ask      func(ctx context.Context) (detail string, err error)
}

// limit bounds each question.
const limit = 20 * time.Second

// Ask asks all questions at the same time, and returns the findings in their order. A question that hangs, as
// on a dead file system, is left to the end of the process.
func Ask(ctx context.Context, questions []Question) []Finding {
	found := make([]Finding, len(questions))
	var asked sync.WaitGroup
	for i, q := range questions {
		asked.Go(func() { found[i] = q.ask(ctx) })
	}
	asked.Wait()
	return found
}

func (q *Question) ask(ctx context.Context) Finding {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	answer := make(chan Finding, 1)
	go func() {
		detail, err := q.Ask(ctx)
		if err != nil {
			answer <- q.fault(strings.ReplaceAll(err.Error(), "\n", "; "))
			return
		}
		answer <- Finding{Question: q.Name, State: OK, Detail: detail}
	}()
	select {
	case f := <-answer:
		return f
	case <-ctx.Done():
		return q.fault("no answer within " + limit.String())
	}
}

func (q *Question) fault(detail string) Finding {
	if q.Optional {
		return Finding{q.Name, Warning, detail, q.Fix}
	}
	return Finding{q.Name, Fault, detail, q.Fix}
}

// leastSpace is what a build of one image takes of the cache at most, with some to spare: base, packages,
// driver and layers.
const leastSpace = 2 << 30

// Cache asks whether the folder can be written to, and has space.
func Cache(dir string) Question {
	ask := func(context.Context) (string, error) {
		if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // as fetch.OpenStore makes it
			return "", err
		}
		f, err := os.CreateTemp(dir, ".doctor-*")
		if err != nil {
			return "", err
		}
		var st unix.Statfs_t
		if err := errors.Join(unix.Fstatfs(int(f.Fd()), &st), f.Close(), os.Remove(f.Name())); err != nil {
			return "", fmt.Errorf("ask for the space of %s: %w", dir, err)
		}
		free := st.Bavail * uint64(st.Bsize) //nolint:gosec // never negative
		if free < leastSpace {
			return "", fmt.Errorf("%s has %d MiB free, a build takes up to %d MiB", dir, free>>20, leastSpace>>20)
		}
		return fmt.Sprintf("%s can be written to, %.1f GiB are free", dir, float64(free)/(1<<30)), nil
	}
	return Question{Name: "cache", Fix: "name a folder that can be written to and has space, with --cache or DRIVER_BUILD_CACHE", Ask: ask}
}

// Registry is what is asked of registries.
type Registry interface {
	Resolve(ctx context.Context, ref, arch string) (v1.Hash, error)
	CheckPush(ctx context.Context, repository string) error
}

// Bases asks each registry that bases come from, through its mirrors, for the base of its first system.
func Bases(client Registry, systems []matrix.System) (all []Question) {
	known := map[string]bool{}
	for _, s := range systems {
		ref, err := name.ParseReference(s.Base)
		if err != nil || known[ref.Context().RegistryStr()] {
			continue // the matrix has checked its references
		}
		host := ref.Context().RegistryStr()
		known[host] = true
		if host == name.DefaultRegistry {
			host = "docker.io" // as people and --registry-mirror write it
		}
		base := s.Base
		if tagged, _, _ := strings.Cut(base, "@"); strings.LastIndex(tagged, ":") > strings.LastIndex(tagged, "/") {
			base = tagged // what a digest names may be in the cache, and then no registry is asked
		}
		all = append(all, Question{
			Name: "bases of " + host,
			Fix:  "reach it through a proxy (HTTPS_PROXY) or --registry-mirror " + host + "=MIRROR, trust its authority with --ca, log in with driver-build login " + host,
			Ask: func(ctx context.Context) (string, error) {
				digest, err := client.Resolve(ctx, base, s.Archs[0])
				return fmt.Sprintf("%s is %s", base, digest), err
			},
		})
	}
	return all
}

// Repository asks whether images can be pushed to a repository.
func Repository(client Registry, repository string) Question {
	host, _, _ := strings.Cut(repository, "/")
	return Question{
		Name: "repository",
		Fix:  "log in with driver-build login " + host + ", trust its authority with --ca, ask its owner for the right to push to " + repository,
		Ask: func(ctx context.Context) (string, error) {
			return repository + " accepts pushes", client.CheckPush(ctx, repository)
		},
	}
}
