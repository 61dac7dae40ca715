package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/cmd/driver-build/flags"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/programs"
	"github.com/driver-container/driver-container/images/registry"
)

const doctorLong = `Ask what of a build works from here, with a line for each question and what to do about a fault: the cache, the programs for images,
the registries of the bases through their mirrors, whether --repository accepts pushes, and what compiles for --kernel. No base, package or
driver is downloaded, and no question takes longer than 20 seconds.

Exit code 3 if something is at fault. A warning is about some builds only. driver-build check asks whether each pair of the matrix
can be built, with its package repositories and the driver's archive.`

// leastSpace is what a build of one image takes of the cache at most, with some to spare.
const leastSpace = 2 << 30

// doctorFlags are the flags of the command.
type doctorFlags struct {
	selection          flags.Selection
	repository, format string
	runners            flags.Runners
}

func newDoctorCmd(a *session.App) *cobra.Command {
	var o doctorFlags
	cmd := &cobra.Command{
		Use: "doctor", Short: "Ask what works from this machine", Long: doctorLong, Args: session.NoArgs,
		Example: "  driver-build doctor\n  driver-build doctor --repository registry.example.com/gpu/driver --builder tcp://buildkitd:1234 -o json",
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), a) },
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.selection.Systems, "os", nil, "only the bases of these systems (repeatable; default: those of the matrix)")
	f.StringSliceVar(&o.selection.Archs, "arch", nil, "architecture of the images: amd64 or arm64 (repeatable; default amd64)")
	o.selection.AddMatrix(f)
	f.StringVar(&o.repository, "repository", "", "REGISTRY/PATH that images are pushed to (default: $DRIVER_BUILD_REPOSITORY, else the matrix's)")
	o.runners.AddTo(f)
	flags.Format(f, &o.format)
	return cmd
}

func (o *doctorFlags) run(ctx context.Context, a *session.App) error {
	m, err := o.selection.Load(a)
	if err == nil {
		_, err = m.Select(matrix.Selection{Systems: o.selection.Systems, Archs: o.selection.Archs, All: true})
	}
	if err := errors.Join(err, flags.CheckFormat(o.format), o.runners.Check(a.Getenv)); err != nil {
		return session.Usage(err)
	}
	repository := a.Repository(o.repository, m.Defaults)
	cache, err := a.CacheDir()
	if err := errors.Join(err, batch.CheckRepository(repository)); err != nil {
		return err
	}
	found := ask(ctx, o.local(ctx, a, cache))
	err = a.With(ctx, m.Defaults.Mirrors, nil, func(ctx context.Context, s *session.Session) error {
		found = append(found, ask(ctx, o.registries(a, s, m, repository))...)
		return nil
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		found = append(found, session.Finding{Question: "connection", State: "fault", Detail: err.Error()})
	}
	return o.report(a, found)
}

// question is something that a build needs. ask returns what was found, in a few words.
type question struct {
	name, fix string
	optional  bool // only some builds need it: an error is a warning
	ask       func(ctx context.Context) (string, error)
}

// ask asks all questions at the same time.
func ask(ctx context.Context, questions []question) []session.Finding {
	ctx, cancel := context.WithTimeoutCause(ctx, 20*time.Second, errors.New("no answer within 20s"))
	defer cancel()
	found := make([]session.Finding, len(questions))
	var asked sync.WaitGroup
	for i, q := range questions {
		asked.Go(func() {
			detail, err := q.ask(ctx)
			found[i] = session.Finding{Question: q.name, State: "ok", Detail: detail}
			if err == nil {
				return
			}
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			found[i] = session.Finding{Question: q.name, State: "fault", Detail: strings.ReplaceAll(err.Error(), "\n", "; "), Fix: q.fix}
			if q.optional {
				found[i].State = "warning"
			}
		})
	}
	asked.Wait()
	return found
}

// local are the questions about this machine.
func (o *doctorFlags) local(ctx context.Context, a *session.App, cache string) []question {
	all := []question{
		{"cache", "name a folder that can be written to and has space, with --cache or DRIVER_BUILD_CACHE", false,
			func(context.Context) (string, error) { return askCache(cache) }},
		{"compile", "make one of the two work if images with --kernel are built here; other images need neither", !o.runners.Named(),
			func(ctx context.Context) (string, error) { return o.runners.Try(ctx, cache) }},
	}
	find := a.PresentPrograms(ctx, "", false)
	for _, arch := range (matrix.Selection{Archs: o.selection.Archs}).ArchsOf(matrix.System{}) {
		all = append(all, question{"programs " + arch, "take driver-build and its programs from one release or one build, in one folder", false,
			func(context.Context) (string, error) {
				var names []string
				found, err := find(arch)
				for _, b := range found {
					names = append(names, b.Name)
				}
				if errors.Is(err, programs.ErrNotMade) {
					return err.Error(), nil // a build makes them
				}
				return strings.Join(names, ", "), err
			}})
	}
	return all
}

// askCache asks whether the folder can be written to, and has space.
func askCache(dir string) (string, error) {
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

// registries asks each registry that bases come from, through its mirrors, for the base of its first system,
// and whether images can be pushed.
func (o *doctorFlags) registries(a *session.App, s *session.Session, m *matrix.Matrix, repository string) (all []question) {
	var known []string
	for _, system := range m.Systems {
		ref, err := name.ParseReference(system.Base)
		if err != nil || a.Offline || slices.Contains(known, ref.Context().RegistryStr()) || // the matrix has checked its references
			len(o.selection.Systems) > 0 && !slices.Contains(o.selection.Systems, system.ID) {
			continue
		}
		host := ref.Context().RegistryStr()
		known = append(known, host)
		if host == name.DefaultRegistry {
			host = "docker.io" // as people and --registry-mirror write it
		}
		base := system.Base
		if tagged, _, _ := strings.Cut(base, "@"); strings.LastIndex(tagged, ":") > strings.LastIndex(tagged, "/") {
			base = tagged // what a digest names may be in the cache, and then no registry is asked
		}
		all = append(all, question{
			"bases of " + host, "reach it through a proxy (HTTPS_PROXY) or --registry-mirror " + host +
				"=MIRROR, trust its authority with --ca, log in with driver-build login " + host, false,
			func(ctx context.Context) (string, error) {
				found, err := s.Registry.Open(ctx, base, registry.OpenOptions{Arch: system.Archs[0]})
				if err != nil {
					return "", err
				}
				return fmt.Sprintf("%s is %s", base, found.Digest), nil
			},
		})
	}
	if host, _, _ := strings.Cut(repository, "/"); host != "" {
		all = append(all, question{
			"repository", "log in with driver-build login " + host + ", trust its authority with --ca, ask its owner for the right to push to " +
				repository, false,
			func(ctx context.Context) (string, error) {
				return repository + " accepts pushes", s.Registry.CheckPush(ctx, repository)
			},
		})
	}
	return all
}

// report prints the findings; one that is a fault is an error.
func (o *doctorFlags) report(a *session.App, found []session.Finding) error {
	faults := 0
	w := tabwriter.NewWriter(a.Stdout, 0, 8, 2, ' ', 0)
	for _, f := range found {
		state, line := f.State, f.Detail
		if state == "fault" {
			faults++
			state = "FAULT"
		}
		if f.Fix != "" {
			line += "; to do: " + f.Fix
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", state, f.Question, line)
	}
	write := w.Flush
	if o.format == "json" {
		write = func() error { return a.JSON(session.NewList(found)) }
	}
	if err := write(); err != nil {
		return err
	}
	if faults > 0 {
		return fmt.Errorf("%d of %d questions found a fault: %w", faults, len(found), batch.ErrSomeFailed)
	}
	return nil
}
