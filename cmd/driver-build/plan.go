package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
)

const planLong = `List the images that need building: those that the registry does not have, and those that are out of date, which means that
their base, packages, driver, options or driver-build are others now. With a lock nothing but the registry is asked. An image that
cannot be planned is listed too, so that its build says why. Without --os and --driver the whole matrix is meant.

--format github prints the matrix of a GitHub workflow, gitlab a child pipeline whose jobs extend .driver-build with the flags of
the build in DRIVER_BUILD_ARGS. Both are valid when there is nothing to build. ci/templates has whole pipelines.`

// task is one build: a tag, for one or several architectures.
type task struct {
	Tag     string   `json:"tag"`
	System  string   `json:"os"`
	Driver  string   `json:"driver"`
	Archs   []string `json:"archs"`
	Kernels []string `json:"kernels,omitempty"` // that modules are compiled for
	Reason  string   `json:"reason"`
	Args    string   `json:"args"` // of driver-build, parted by single spaces; nothing in it needs quotes
}

// planning is one call of the command.
type planning struct {
	*job
	cert, format string
}

func newPlanCmd(a *app) *cobra.Command {
	p := &planning{job: &job{app: a}}
	o := &p.options
	cmd := &cobra.Command{
		Use: "plan", Short: "List the images that need building, as a CI matrix", Long: planLong, Args: noArgs,
		Example: "  driver-build plan --repository registry.example.com/gpu/driver\n  driver-build plan --os debian12 --kernel latest --format github",
		RunE:    func(cmd *cobra.Command, _ []string) error { return p.do(cmd.Context()) },
	}
	f := cmd.Flags()
	o.selection.flags(f)
	f.StringVar(&o.repository, "repository", "", "REGISTRY/PATH to look for images in (default: the matrix's)")
	f.StringVar(&o.base, "base", "", "base image instead of the row's: REF, oci:DIR[:TAG], oci-archive:FILE or docker-archive:FILE")
	f.StringVar(&o.mirror, "mirror", "", "package mirror instead of the addresses in the base's configuration: URL or PREFIX=URL")
	f.StringVar(&o.profile, "profile", "", "full or compute (default: the matrix's)")
	f.StringVar(&o.entrypoint, "entrypoint", "", "driver-entrypoint of the images (default: the one beside this program)")
	f.StringVar(&p.cert, "sign-cert", "", "FILE (PEM or DER): certificate of the key that signs modules compiled ahead of time")
	f.StringVarP(&p.format, "format", "o", "table", "table, json, github or gitlab")
	lockFlag(f, &o.lock)
	o.ahead.flags(f)
	o.compression = string(recipe.Gzip)
	return cmd
}

func (p *planning) do(ctx context.Context) error {
	o := &p.options
	if !slices.Contains([]string{"table", "json", "github", "gitlab"}, p.format) {
		return usageError{fmt.Errorf("--format %q is not known: use table, json, github or gitlab", p.format)}
	}
	m, err := o.selection.load()
	if err != nil {
		return err
	}
	if len(o.selection.systems) == 0 || len(o.selection.drivers) == 0 {
		o.selection.all = true
	}
	if p.targets, err = o.selection.targets(m); err != nil {
		return err
	}
	o.dryRun = true
	profile := o.profile
	if err := p.check(m.Defaults); err != nil {
		return err
	}
	if o.repository == "" {
		return usageError{errors.New("give --repository REGISTRY/PATH to look for images in, or defaults.repository in the matrix")}
	}
	if err := p.certificate(); err != nil {
		return usageError{err}
	}
	if p.lock, err = openLock(o, p.targets...); err != nil {
		return err
	}
	if err := p.named(); err != nil {
		return err
	}
	o.profile = profile // what was not given need not be in the arguments
	var tasks []task
	var notes []string
	err = p.app.with(ctx, m.Defaults.Mirrors, o.entrypoint, func(ctx context.Context, s *session) (err error) {
		tasks, notes, err = p.tasks(ctx, s)
		return err
	})
	for _, n := range notes {
		fmt.Fprintln(p.app.stderr, "note: "+n)
	}
	if err != nil {
		return err
	}
	return p.print(p.app.stdout, tasks)
}

// certificate takes the one that signs: which it is belongs to the content of an image.
func (p *planning) certificate() error {
	if p.cert == "" {
		return nil
	}
	if len(p.options.ahead.kernels) == 0 {
		return errors.New("--sign-cert is about modules that are compiled ahead of time: give --kernel too")
	}
	all, err := certificates([]string{p.cert})
	if err != nil {
		return err
	}
	if len(all) != 1 {
		return fmt.Errorf("--sign-cert %s: it holds %d certificates, give the one of the key", p.cert, len(all))
	}
	p.plan.Signer = all[0]
	return nil
}

// tasks looks at every image, several at a time; the answer is in the order of the matrix.
func (p *planning) tasks(ctx context.Context, s *session) (tasks []task, notes []string, err error) {
	from, err := newPlanner(s)
	if err != nil {
		return nil, nil, err
	}
	if p.options.ahead.listed() && p.lock == nil {
		items, err := p.options.ahead.items(p.targets, p.plan, p.options.selection, func(t matrix.Target) ([]distros.Kernel, error) {
			return from.kernels(ctx, t, p.plan)
		})
		if err == nil {
			err = p.group(items)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	reasons := make([][]string, len(p.groups))
	var eg errgroup.Group
	eg.SetLimit(max(1, p.app.jobs))
	errs := make([]error, len(p.groups))
	for i, g := range p.groups {
		eg.Go(func() error {
			if errs[i] = context.Cause(ctx); errs[i] == nil {
				reasons[i], errs[i] = p.reasons(ctx, s, from, g)
			}
			return nil
		})
	}
	_ = eg.Wait() // the errors are in errs
	if err := errors.Join(errs...); err != nil {
		return nil, nil, err
	}
	tasks = []task{}
	for i, g := range p.groups {
		if len(reasons[i]) == 0 {
			continue
		}
		t, err := p.task(g, strings.Join(reasons[i], "; "))
		if err != nil {
			return nil, nil, err
		}
		tasks = append(tasks, t)
	}
	if len(tasks) == 0 {
		notes = append(notes, fmt.Sprintf("all %d images are up to date", len(p.groups)))
	}
	return tasks, notes, nil
}

// reasons to build what belongs to a tag; none when it is up to date. A registry that does not answer is an error: everything
// would be built again.
func (p *planning) reasons(ctx context.Context, s *session, from *planner, g group) (reasons []string, err error) {
	for _, it := range g.items {
		r, planErr := from.recipe(ctx, it)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		st := s.imageState(ctx, p.options.repository+":"+g.tag, it.target.Arch, r)
		switch {
		case st.State == imageUnknown:
			return nil, st.Err
		case planErr != nil:
			reasons = append(reasons, it.target.Arch+": cannot be planned: "+oneLine(planErr))
		case st.State == imageMissing:
			reasons = append(reasons, it.target.Arch+": "+st.Why)
		case st.State != imageCurrent:
			reasons = append(reasons, it.target.Arch+": "+string(st.State)+": "+st.Why)
		}
	}
	return sameReason(g, reasons), nil
}

// sameReason says once what is true of all architectures.
func sameReason(g group, reasons []string) []string {
	if len(reasons) < len(g.items) {
		return reasons
	}
	var all []string
	for i, r := range reasons {
		all = append(all, strings.TrimPrefix(r, g.items[i].target.Arch+": "))
	}
	if all = slices.Compact(all); len(all) == 1 {
		return all
	}
	return reasons
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

func (p *planning) task(g group, reason string) (task, error) {
	first := g.items[0]
	t := task{Tag: g.tag, System: first.target.System.ID, Driver: first.target.Driver.Version, Kernels: first.plan.Kernels, Reason: reason}
	o := &p.options
	words := []string{"--os", t.System, "--driver", t.Driver}
	add := func(flag string, values ...string) {
		for _, v := range values {
			if v != "" {
				words = append(words, flag, v)
			}
		}
	}
	for _, it := range g.items {
		t.Archs = append(t.Archs, it.target.Arch)
		add("--arch", it.target.Arch)
	}
	add("--kernel", t.Kernels...)
	for _, f := range []struct {
		flag string
		set  bool
	}{{"--one-image", o.ahead.together}, {"--with-toolchain", o.ahead.toolchain}, {"--with-sources", o.ahead.sources}, {"--allow-incompatible", o.selection.incompatible}} {
		if f.set {
			words = append(words, f.flag)
		}
	}
	add("--modules", strings.Join(o.ahead.modules, ","))
	add("--flavour", o.selection.flavour...)
	add("--profile", o.profile)
	add("--base", o.base)
	add("--mirror", strings.ReplaceAll(recipe.PublicMirror(o.mirror), " ", ","))
	add("--matrix", o.selection.matrixFile)
	add("--lock", o.lock)
	add("--repository", o.repository)
	for _, w := range words {
		if strings.ContainsAny(w, " \t\n*?['\"\\") {
			return t, usageError{fmt.Errorf("%q cannot be an argument in a pipeline: use a name without spaces, quotes and wildcards", w)}
		}
	}
	t.Args = strings.Join(words, " ")
	return t, nil
}

func (p *planning) print(w io.Writer, tasks []task) error {
	switch p.format {
	case "github":
		return printGitHub(w, p.app.stderr, tasks)
	case "gitlab":
		return printGitLab(w, tasks)
	case "json":
		return p.app.printJSON(tasks)
	}
	return printTasks(w, tasks)
}
