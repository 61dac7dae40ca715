package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/cmd/driver-build/flags"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/programs"
	"github.com/driver-container/driver-container/images/registry"
)

const doctorLong = `Ask what of a build works from here, with a line for each question and what to do about a fault: the cache, the programs for images,
the registries of the bases through their mirrors, whether --repository accepts pushes, and what compiles for --kernel. No base, package or
driver is downloaded, and no question takes longer than 20 seconds.

Exit code 3 if something is at fault. A warning is about some builds only. driver-build check asks whether each pair of the matrix
can be built, with its package repositories and the driver's archive.`

// doctorFlags are the flags of the command doctor.
type doctorFlags struct {
	matrix     flags.Matrix
	selection  matrix.Selection
	repository flags.Repository
	runners    flags.Runners
}

func newDoctorCmd(a *session.App) *cobra.Command {
	var o doctorFlags
	s := &o.selection
	cmd := &cobra.Command{
		Use: "doctor", Short: "Ask what works from this machine", Long: doctorLong, Args: cobra.NoArgs,
		Example: "  driver-build doctor\n  driver-build doctor --repository registry.example.com/gpu/driver --builder tcp://buildkitd:1234 -o json",
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), a) },
	}
	f := cmd.Flags()
	f.StringSliceVar(
		&s.Systems,
		"os",
		nil,
		"only the bases of this `SYSTEM` (repeatable; default: those of the matrix)",
	)
	f.StringSliceVar(
		&s.Archs,
		"arch",
		nil,
		"`ARCH` of the images: amd64 or arm64 (repeatable; default amd64)",
	)
	o.matrix.AddTo(f)
	o.repository.AddTo(f, "push to")
	o.runners.AddTo(f)
	session.Format(f, &a.Format, "table", "json")
	return cmd
}

func (o *doctorFlags) run(ctx context.Context, a *session.App) error {
	err := o.runners.Check(ctx, a.Getenv)
	if err != nil {
		return err
	}
	m, err := o.matrix.Load(a, nil)
	if err != nil {
		return err
	}
	selection := o.selection
	selection.All = true
	_, err = m.Select(selection)
	if err != nil {
		return session.Usage(err)
	}
	repository, err := o.repository.Find(a, m.Defaults)
	if err != nil {
		return err
	}
	var found []*session.Finding
	err = a.Connect(
		ctx,
		m.Defaults.Mirrors,
		nil,
		func(ctx context.Context, s *session.Session) error {
			found = ask(ctx, func(ask asker) {
				o.askHere(ctx, ask, a, s.Builder.Store.Dir())
				o.askBases(ask, s, m, a.Offline)
				askRepository(ask, s, repository)
			})
			return ctx.Err()
		},
	)
	if err != nil {
		return err
	}
	faults := 0
	for _, f := range found {
		if f.State == "fault" {
			faults++
			err = failure.Errorf(
				failure.Some,
				"%d of %d questions found a fault: see the lines with FAULT",
				faults,
				len(found),
			)
		}
	}
	return errors.Join(err, session.ShowList(a, found, nil, func(f *session.Finding) []string {
		return []string{
			strings.Replace(f.State, "fault", "FAULT", 1),
			f.Question,
			f.Detail + prefixed("; to do: ", f.Fix),
		}
	}))
}

// asker asks about something that a build needs; need is what an error is: a fault, or a warning if
// only some builds need it. answer returns what was found, in a few words.
type asker func(name, need, fix string, answer func(ctx context.Context) (string, error))

// ask asks all questions at the same time.
func ask(ctx context.Context, questions func(asker)) (found []*session.Finding) {
	ctx, cancel := context.WithTimeoutCause(ctx, 20*time.Second, errors.New("no answer within 20s"))
	defer cancel()
	var asked sync.WaitGroup
	questions(func(name, need, fix string, answer func(context.Context) (string, error)) {
		f := &session.Finding{Question: name, State: "ok"}
		found = append(found, f)
		asked.Go(func() {
			var err error
			f.Detail, err = answer(ctx)
			if err == nil {
				return
			}
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			f.State = need
			f.Detail = strings.ReplaceAll(err.Error(), "\n", "; ")
			f.Fix = fix
		})
	})
	asked.Wait()
	return found
}

// askHere asks about this machine.
func (o *doctorFlags) askHere(
	ctx context.Context,
	ask asker,
	a *session.App,
	cache string,
) {
	const least = 2 << 30 // bytes: what a build of one image takes, with some to spare
	ask(
		"cache",
		"fault",
		"name a folder that has space, with --cache or DRIVER_BUILD_CACHE",
		func(context.Context) (string, error) {
			var st unix.Statfs_t
			err := unix.Statfs(cache, &st)
			if err != nil {
				return "", err
			}
			free := st.Bavail * uint64(st.Bsize) //nolint:gosec // never negative
			if free < least {
				const short = "%s has %d MiB free, a build takes up to %d MiB"
				return "", fmt.Errorf(short, cache, free>>20, least>>20)
			}
			gib := float64(free) / (1 << 30)
			return fmt.Sprintf("%s can be written to, %.1f GiB are free", cache, gib), nil
		},
	)
	need := map[bool]string{true: "fault", false: "warning"}[o.runners.Named()]
	ask(
		"compile",
		need,
		"make one of the two work if images with --kernel are built here; other images need neither",
		func(ctx context.Context) (string, error) { return o.runners.Try(ctx, cache) },
	)
	find := a.Programs(ctx, &programs.Finder{Present: true})
	for _, arch := range (matrix.Selection{Archs: o.selection.Archs}).ArchsOf(matrix.System{}) {
		const fix = "take driver-build and its programs from one release or one build, in one folder"
		ask("programs "+arch, "fault", fix, func(context.Context) (string, error) {
			found, err := find(arch)
			if errors.Is(err, programs.ErrNotMade) {
				return err.Error(), nil // a build makes them
			}
			return fmt.Sprintf("%d are here", len(found)), err
		})
	}
}

// wants says whether the bases of a system are asked for.
func (o *doctorFlags) wants(system string) bool {
	return len(o.selection.Systems) == 0 || slices.Contains(o.selection.Systems, system)
}

// askBases asks each registry that bases come from, through its mirrors, for the base of its first
// system.
func (o *doctorFlags) askBases(
	ask asker,
	s *session.Session,
	m *matrix.Matrix,
	offline bool,
) {
	known := map[string]bool{}
	for _, system := range m.Systems {
		ref, err := name.ParseReference(system.Base)
		// the matrix has checked its references
		if err != nil || offline || !o.wants(system.ID) {
			continue
		}
		host := strings.Replace(ref.Context().RegistryStr(), name.DefaultRegistry, "docker.io", 1)
		// what a digest names may be in the cache, and then no registry is asked
		base, _, _ := strings.Cut(system.Base, "@")
		if known[host] {
			continue
		}
		known[host] = true
		fix := "reach it through a proxy (HTTPS_PROXY) or --registry-mirror " + host + "=MIRROR, trust its authority with --ca, "
		ask(
			"bases of "+host,
			"fault",
			fix+"log in with docker login "+host,
			func(ctx context.Context) (string, error) {
				_, err := s.Builder.Registry.Open(ctx, base, registry.OpenOptions{Arch: system.Archs[0]})
				return base + " is there", err
			},
		)
	}
}

// askRepository asks whether images can be pushed.
func askRepository(ask asker, s *session.Session, repository string) {
	if repository == "" {
		return
	}
	host, _, _ := strings.Cut(repository, "/")
	fix := "log in with docker login " + host + ", trust its authority with --ca, " +
		"ask its owner for the right to push to " + repository
	ask("repository", "fault", fix, func(ctx context.Context) (string, error) {
		return repository + " accepts pushes", s.Builder.Registry.CheckPush(ctx, repository)
	})
}
