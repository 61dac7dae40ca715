// Package plancmd is the commands of driver-build that ask about images and build nothing: plan asks
// the registry which are due, check what could be built, fleet what the nodes of a cluster need.
package plancmd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/cmd/driver-build/flags"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/programs"
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
	survey flags.Survey
	cuda   flags.CUDA
	cert   string // file of a certificate
	flags  *pflag.FlagSet
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
	o.flags = f
	o.survey.AddTo(f)
	o.survey.Request.Kernels.AddTo(f)
	o.survey.Request.Profile.AddTo(f)
	o.cuda.AddTo(f)
	f.StringVar(
		&o.cert,
		"module-cert",
		"",
		"FILE (PEM or DER): certificate of the key that signs modules compiled ahead of time",
	)
	session.Format(f, &a.Format, "table", "json", "github", "gitlab")
	return cmd
}

// query returns what the flags ask for, and the matrix that its targets are chosen from.
func (o *planFlags) query(a *session.App) (q status.Query, m *matrix.Matrix, err error) {
	request := &o.survey.Request
	s := request.Targets.Selection
	chosen := s.All || len(s.Systems)+len(s.Drivers) > 0
	request.Targets.SelectAllByDefault()
	m, q, err = o.survey.Load(a)
	if err != nil {
		return q, nil, err
	}
	q.Request, err = request.Images(a, m)
	if err != nil {
		return q, nil, err
	}
	if len(q.Request.Targets) > status.MaxGitHubJobs && !chosen {
		return q, nil, session.Usagef(
			"plan builds the whole matrix, %d images: choose some with --os and --driver, keep a smaller "+
				"matrix.yaml (driver-build matrix init writes one), or give --all",
			len(q.Request.Targets),
		)
	}
	if q.Repository == "" {
		return q, nil, session.Usagef(
			"give --repository REGISTRY/PATH to look for images in, DRIVER_BUILD_REPOSITORY in the " +
				"environment, or defaults.repository in the matrix",
		)
	}
	q.Arguments = flags.BuildArguments(o.flags, q.Repository)
	if o.cert != "" { // it is part of the content of an image
		q.Request.Options.Signer, err = flags.Certificate(o.cert)
		if err != nil {
			return q, nil, err
		}
	}
	cuda, err := o.cuda.Find(a, m)
	if err != nil {
		return q, nil, err
	}
	if cuda != nil {
		q.Request.Targets, err = running(q.Request.Targets, *cuda)
	}
	return q, m, err
}

// running returns the targets whose drivers run a release of CUDA.
func running(targets []matrix.Target, cuda releases.CUDA) ([]matrix.Target, error) {
	targets = slices.DeleteFunc(targets, func(t matrix.Target) bool {
		return cuda.RunByDriver(t.Driver).Support == releases.CUDANone
	})
	if len(targets) > 0 {
		return targets, nil
	}
	return nil, session.Usagef(
		"--cuda %[1]s: no driver of the selection runs it: it needs %[2]s or newer; "+
			"driver-build list --cuda %[1]s shows all",
		cuda.Version,
		cuda.Floor,
	)
}

func (o *planFlags) run(ctx context.Context, a *session.App) error {
	if o.cert != "" && !o.survey.Request.Kernels.Compile() {
		return session.Usagef(
			"--module-cert is about modules that are compiled ahead of time: give --kernel too",
		)
	}
	q, m, err := o.query(a)
	if err != nil {
		return err
	}
	targets := q.Request.Targets
	var due status.Builds
	err = o.survey.Connect(ctx, a, m, &q, func(ctx context.Context, s *session.Session) (err error) {
		err = programs.Check(s.Builder.Binaries, targets)
		if err != nil {
			return err
		}
		due, err = status.Due(ctx, s.Builder, q)
		return err
	})
	printLeft(a, due.Left)
	if err != nil {
		return err
	}
	if len(due.Tasks) == 0 {
		a.Notes(fmt.Sprintf("all %d images are up to date", due.Checked))
	}
	advisor, err := o.survey.Policy.Advisor(a)
	if err != nil {
		return err
	}
	for i, t := range due.Tasks {
		n := slices.IndexFunc(
			m.Drivers,
			func(d matrix.Driver) bool { return d.Version == t.Driver },
		)
		if n >= 0 {
			due.Tasks[i].Advisories = advisor.Notes(m.Drivers[n])
		}
	}
	err = printTasks(a, due.Tasks)
	if err != nil {
		return err
	}
	flags.WarnOfFabric(a, targets, o.survey.Request.Targets.Selection)
	return o.survey.Policy.Report(a, targets, true)
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
