// Package plancmd is the commands of driver-build that say which images are missing and build
// nothing: plan asks the matrix, fleet the nodes of a cluster.
package plancmd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/cmd/driver-build/flags"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/releases"
	"github.com/driver-container/driver-container/images/status"
)

const planLong = `List the images that need building: those that the registry does not have, and those that are out of date, which means that
their base, packages, driver, options or driver-build are others now. With a lock nothing but the registry is asked. An image that
cannot be planned is listed too, so that its build says why. If its base or packages are out of reach now, it is left out with a
warning, and exit code 4 if nothing else is to be built. Without --os and --driver the whole matrix is meant, if it has 256 images
or fewer; --all means every one.

--format github prints the matrix of a GitHub workflow, gitlab a child pipeline whose jobs extend .driver-build with the flags of
the build in DRIVER_BUILD_ARGS. Both are valid when there is nothing to build. ci/templates has whole pipelines.`

// planFlags are the flags of the command plan.
type planFlags struct {
	request flags.Request
	policy  flags.Policy
	cuda    flags.CUDA
	cert    string // file of a certificate
}

// NewPlan returns the command plan.
func NewPlan(a *session.App) *cobra.Command {
	var o planFlags
	cmd := &cobra.Command{
		Use: "plan", Short: "Say which images have to be built now, as a matrix for CI", Long: planLong, Args: cobra.NoArgs,
		Example: "  driver-build plan --repository registry.example.com/gpu/driver\n  driver-build plan --os ubuntu22.04 --kernel latest --format github",
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), a) },
	}
	f := cmd.Flags()
	o.request.Targets.AddTo(f)
	o.request.Sources.AddTo(f)
	o.request.Kernels.AddTo(f)
	o.request.Programs.AddTo(f)
	o.request.Repository.AddTo(f, "look for images in")
	o.request.Profile.AddTo(f)
	o.request.Lock.AddTo(f)
	o.policy.AddTo(f)
	o.cuda.AddTo(f)
	f.StringVar(
		&o.cert,
		"module-cert",
		"",
		"FILE (PEM or DER): certificate of the key that signs modules compiled ahead of time",
	)
	session.Format(f, &a.Format, "table, json, github or gitlab")
	return cmd
}

// batch returns the images that the flags mean, and the matrix that they are chosen from.
func (o *planFlags) batch(a *session.App) (*batch.Batch, *matrix.Matrix, error) {
	s := o.request.Targets.Selection
	chosen := s.All || len(s.Systems)+len(s.Drivers) > 0
	o.request.Targets.SelectAllByDefault()
	m, err := o.request.Targets.Load(a)
	if err != nil {
		return nil, nil, err
	}
	b, err := o.request.Batch(a, m.Defaults)
	if err != nil {
		return nil, nil, err
	}
	err = b.Select(m)
	if err != nil {
		return nil, nil, err
	}
	if len(b.Targets) > status.MaxGitHubJobs && !chosen {
		return nil, nil, session.Usagef(
			"plan builds the whole matrix, %d images: choose some with --os and --driver, keep a smaller "+
				"matrix.yaml (driver-build matrix init writes one), or give --all",
			len(b.Targets),
		)
	}
	if b.Repository == "" {
		return nil, nil, session.Usagef(
			"give --repository REGISTRY/PATH to look for images in, DRIVER_BUILD_REPOSITORY in the " +
				"environment, or defaults.repository in the matrix",
		)
	}
	cuda, err := o.cuda.Find(a, m)
	if err != nil {
		return nil, nil, err
	}
	if cuda != nil {
		err = b.LimitToCUDA(*cuda)
	}
	return b, m, err
}

func (o *planFlags) run(ctx context.Context, a *session.App) error {
	kernels := batch.Kernels(o.request.Kernels)
	if o.cert != "" && !kernels.Compile() {
		return session.Usagef(
			"--module-cert is about modules that are compiled ahead of time: give --kernel too",
		)
	}
	err := o.policy.Check()
	if err != nil {
		return err
	}
	b, m, err := o.batch(a)
	if err != nil {
		return err
	}
	if o.cert != "" { // it is part of the content of an image
		b.Plan.Signer, err = flags.Certificate(o.cert)
		if err != nil {
			return err
		}
	}
	groups, err := b.NamedGroups()
	if err != nil {
		return err
	}
	programs, err := o.request.Programs.Find(ctx, a, b.Targets, true)
	if err != nil {
		return err
	}
	var due status.Builds
	err = a.Connect(
		ctx,
		m.Defaults.Mirrors,
		programs,
		func(ctx context.Context, s *session.Session) (err error) {
			due, err = status.Due(ctx, b, s.Builder, groups)
			return err
		},
	)
	printLeft(a, due.Left)
	if err != nil {
		return err
	}
	if len(due.Tasks) == 0 {
		a.Notes(fmt.Sprintf("all %d images are up to date", due.Checked))
	}
	for i, t := range due.Tasks {
		n := slices.IndexFunc(
			m.Drivers,
			func(d matrix.Driver) bool { return d.Version == t.Driver },
		)
		if n >= 0 {
			due.Tasks[i].Advisories = releases.Notes(m.Drivers[n], o.policy.Day)
		}
	}
	err = printTasks(a, due.Tasks)
	if err != nil {
		return err
	}
	flags.WarnOfFabric(a, b)
	return o.policy.Report(a, b.Targets, true)
}

// printLeft says which images the plan leaves out, once for each cause.
func printLeft(a *session.App, left map[string][]string) {
	for _, cause := range slices.Sorted(maps.Keys(left)) {
		a.Warnings(
			"left out, because a build cannot work now: " + cause + ": " + some(left[cause], 3),
		)
	}
}

func printTasks(a *session.App, tasks []status.Task) error {
	switch a.Format {
	case "github":
		if len(tasks) > status.MaxGitHubJobs {
			fmt.Fprintf(
				a.Stderr,
				"note: %d images need building, the first %d are listed: a matrix has no more jobs; plan again when they are there\n",
				len(tasks),
				status.MaxGitHubJobs,
			)
		}
		return status.WriteGitHub(a.Stdout, tasks)
	case "gitlab":
		return status.WriteGitLab(a.Stdout, tasks)
	}
	return session.ShowList(
		a,
		tasks,
		[]string{"TAG", "ARCH", "REASON"},
		func(t status.Task) []string {
			return []string{t.Tag, strings.Join(t.Archs, ","), t.Reason}
		},
	)
}
